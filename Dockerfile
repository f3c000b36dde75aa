# docker build -t instaaug .
# docker run --rm -v "$PWD:/data" instaaug train FOLDER
# Which torch pip finds depends on the index: on Linux most have builds with CUDA, which need `docker run --gpus all`.
FROM python:3.11-slim
ARG TORCH="torch>=2.4"
WORKDIR /project
COPY . .
RUN pip install --no-cache-dir "$TORCH" && pip install --no-cache-dir '.[train,report,tune,export]'
WORKDIR /data
ENTRYPOINT ["instaaug"]
CMD ["--help"]
