# CPU image of quire-server with the bundled model.
#   docker build -t quire .
#   docker run --rm -p 8000:8000 quire
#   docker run --rm -p 8000:8000 -v /models/qwen3:/model:ro quire --model /model
#   docker run --rm -p 8000:8000 -v quire-models:/cache quire --model Qwen/Qwen3-0.6B

FROM debian:bookworm-slim AS build
RUN apt-get update && apt-get install -y --no-install-recommends \
        g++ cmake ninja-build pkg-config ca-certificates \
        libgrpc++-dev libgrpc-dev protobuf-compiler protobuf-compiler-grpc libprotobuf-dev \
        libprotoc-dev libabsl-dev nlohmann-json3-dev libspdlog-dev libhwy-dev libpcre2-dev \
        libutf8proc-dev libcli11-dev libssl-dev libcurl4-openssl-dev libedit-dev \
        libnghttp2-dev libzip-dev libzmq3-dev \
    && rm -rf /var/lib/apt/lists/*
WORKDIR /src
COPY . .
RUN cmake --preset cpu -DQUIRE_TESTS=OFF \
    && cmake --build build/cpu --target quire-server quire \
    && cmake --install build/cpu --component server --prefix /opt/quire --strip

FROM debian:bookworm-slim
RUN apt-get update && apt-get install -y --no-install-recommends \
        libgrpc++1.51 libprotobuf32 libabsl20220623 libspdlog1.10 libfmt9 libhwy1 libpcre2-8-0 \
        libutf8proc2 libssl3 libcurl4 libedit2 libnghttp2-14 libzip4 libzmq5 ca-certificates \
    && rm -rf /var/lib/apt/lists/*
COPY --from=build /opt/quire /opt/quire
# Models by name are kept here: mount a volume, or the Hugging Face cache of the host.
RUN mkdir /cache && chown 65532:65532 /cache
ENV HF_HOME=/cache
USER 65532:65532
EXPOSE 8000
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=5s --start-period=60s \
    CMD ["/opt/quire/bin/quire", "health", "--target", "127.0.0.1:8000"]
ENTRYPOINT ["/opt/quire/bin/quire-server"]
