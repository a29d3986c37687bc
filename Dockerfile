# ssdsim in a container, with everything but torch:
#     docker build -t ssdsim .
#     docker run --rm -v "$PWD:/work" ssdsim predict --b 16 --p-hit 0.85
FROM python:3.13-slim AS build
WORKDIR /source
COPY . .
# hadolint ignore=DL3013  # what is copied here has no version to pin
RUN pip install --no-cache-dir --prefix /installed ".[tables]"

FROM python:3.13-slim
COPY --from=build /installed /usr/local
RUN useradd --create-home --uid 1000 ssdsim
USER 1000
WORKDIR /work
ENTRYPOINT ["ssdsim"]
CMD ["--help"]
