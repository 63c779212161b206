# The image for all platforms, by Docker: docker buildx bake -f tools/release/docker-bake.hcl --push
variable "VERSION" {
  default = "0.1.0"
}

variable "REGISTRY" {
  default = "localhost:5000"
}

target "default" {
  context    = "."
  dockerfile = "Dockerfile"
  platforms  = ["linux/amd64", "linux/arm64"]
  args       = { VERSION = VERSION }
  tags       = ["${REGISTRY}/stoker:${VERSION}"]
  attest     = ["type=provenance,mode=max", "type=sbom"]
}
