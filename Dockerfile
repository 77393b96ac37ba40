# Images of Quire: quire-server, quire-bench, the bundled model, the Debian libraries that they need.
#   docker build -t quire .                           # for processors
#   docker build -t quire:cuda --target cuda .        # for NVIDIA GPUs of compute capability 8.0 to 9.0
# docs/deployment.md has how they are run; tools/image-test builds both without Docker and asks them.

FROM debian:bookworm-slim AS tools
RUN apt-get update && apt-get install -y --no-install-recommends \
        g++ cmake ninja-build ccache pkg-config ca-certificates \
        libgrpc++-dev libgrpc-dev protobuf-compiler protobuf-compiler-grpc libprotobuf-dev \
        libprotoc-dev libabsl-dev nlohmann-json3-dev libspdlog-dev libhwy-dev libpcre2-dev \
        libutf8proc-dev libcli11-dev libssl-dev libcurl4-openssl-dev libedit-dev \
        libnghttp2-dev libzip-dev libzmq3-dev \
    && rm -rf /var/lib/apt/lists/*
ENV LANG=C.UTF-8 CCACHE_DIR=/ccache CCACHE_BASEDIR=/src CCACHE_NOHASHDIR=1
WORKDIR /src

FROM tools AS build-cpu
COPY . .
RUN --mount=type=cache,target=/ccache \
    cmake --preset cpu -DQUIRE_TESTS=OFF -DQUIRE_SHARED_KERNELS=ON \
    && cmake --build build/cpu --target quire-server quire-bench \
    && cmake --install build/cpu --component server --prefix /opt/quire --strip \
    && cmake --install build/cpu --component bench --prefix /opt/quire --strip \
    && cp LICENSE /opt/quire/

# CUDA's compiler and cuBLASLt as NVIDIA publishes them on PyPI: Debian's nvcc is too old.
FROM tools AS cuda-toolkit
ARG PIP_INDEX_URL PIP_CERT
RUN apt-get update && apt-get install -y --no-install-recommends python3-pip \
    && rm -rf /var/lib/apt/lists/*
RUN pip3 install --no-cache-dir --no-compile --no-deps --target /opt/wheels \
        nvidia-cuda-nvcc==13.0.88 nvidia-nvvm==13.0.88 nvidia-cuda-crt==13.0.88 \
        nvidia-cuda-runtime==13.0.96 nvidia-cuda-cccl==13.0.85 nvidia-cublas==13.1.0.3 \
    && mv /opt/wheels/nvidia/cu13 /usr/local/cuda \
    && mv /opt/wheels/nvidia_cublas-*.dist-info/licenses/License.txt /usr/local/cuda/LICENSE.txt \
    && rm -r /opt/wheels /usr/local/cuda/lib/libcublas.so.* \
    && ln -s lib /usr/local/cuda/lib64 \
    && ln -s libcudart.so.13 /usr/local/cuda/lib/libcudart.so \
    && ln -s libcublasLt.so.13 /usr/local/cuda/lib/libcublasLt.so
ENV PATH=/usr/local/cuda/bin:$PATH

# CUDA_PRESET=cuda is for compute capability 9.0 alone and compiles in a third of the time.
FROM cuda-toolkit AS build-cuda
ARG CUDA_PRESET=cuda-portable
COPY . .
RUN --mount=type=cache,target=/ccache \
    cmake --preset $CUDA_PRESET -B build/cuda -DQUIRE_TESTS=OFF -DQUIRE_SHARED_KERNELS=ON \
    && cmake --build build/cuda --target quire-server quire-bench \
    && cmake --install build/cuda --component server --prefix /opt/quire --strip \
    && cmake --install build/cuda --component bench --prefix /opt/quire --strip \
    && cp LICENSE /opt/quire/

FROM debian:bookworm-slim AS runtime
RUN apt-get update && apt-get install -y --no-install-recommends \
        libstdc++6 libprotobuf32 libabsl20220623 libspdlog1.10 libfmt9 libhwy1 libpcre2-8-0 \
        libutf8proc2 libssl3 libcurl4 libnghttp2-14 libzip4 libzmq5 ca-certificates \
    && rm -rf /var/lib/apt/lists/*
# Models by name are kept in /cache: mount a volume, or the Hugging Face cache of the host. /run/quire tells
# the health check where the server listens. Volumes can be written where the root cannot; group 0 may, because
# OpenShift gives each container a user of its own in that group.
RUN mkdir /cache /run/quire && chown 65532:0 /cache /run/quire && chmod 2775 /cache /run/quire
ENV HF_HOME=/cache QUIRE_CACHE_DIR=/cache/quire QUIRE_ADDRESS_FILE=/run/quire/address
# The programs find their libraries by their own place only where there is a /proc.
ENV PATH=/opt/quire/bin:$PATH LD_LIBRARY_PATH=/opt/quire/lib
USER 65532:0
EXPOSE 8000
VOLUME /cache /run/quire
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=5s --start-period=60s CMD ["/opt/quire/bin/quire-server", "--check-health"]
ENTRYPOINT ["/opt/quire/bin/quire-server"]
ARG VERSION=unknown REVISION=unknown
LABEL org.opencontainers.image.title="Quire" \
      org.opencontainers.image.description="Inference server for large language models" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="$VERSION" \
      org.opencontainers.image.revision="$REVISION"

FROM runtime AS cuda
COPY --from=build-cuda /opt/quire /opt/quire
COPY --from=cuda-toolkit /usr/local/cuda/lib/libcublasLt.so.13 /opt/quire/lib/
COPY --from=cuda-toolkit /usr/local/cuda/LICENSE.txt /opt/quire/share/doc/cublas/
ENV NVIDIA_VISIBLE_DEVICES=all NVIDIA_DRIVER_CAPABILITIES=compute,utility NVIDIA_REQUIRE_CUDA="cuda>=13.0"

FROM runtime AS cpu
COPY --from=build-cpu /opt/quire /opt/quire
