"""Data sets; none of them knows of augmentation."""

from instaaug.data.sprites import RotatedSprites, draw_sprites, load_mario_iggy

__all__ = ["RotatedSprites", "draw_sprites", "load_mario_iggy"]
