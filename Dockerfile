# docker build --tag rarefeat . ; for Apptainer afterwards: apptainer build rarefeat.sif docker-daemon://rarefeat:latest
FROM python:3.11-slim
# As in --build-arg PIP_ARGS="--extra-index-url URL", for a CPU or CUDA build of torch.
ARG PIP_ARGS=""
COPY . /rarefeat
RUN pip install --no-cache-dir --constraint /rarefeat/constraints.txt ${PIP_ARGS} "/rarefeat[cluster]"
WORKDIR /work
CMD ["rarefeat", "--help"]
