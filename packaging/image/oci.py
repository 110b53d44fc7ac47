"""Images as OCI archives, made without an engine: the same files give the same bytes.

An archive has an image for each of its architectures. `podman load` and `skopeo` read all archives. `docker load` reads an
archive with several architectures only if the engine stores images by containerd."""

import contextlib
import dataclasses
import gzip
import hashlib
import io
import json
import tarfile

MANIFEST = "application/vnd.oci.image.manifest.v1+json"
INDEX = "application/vnd.oci.image.index.v1+json"


@dataclasses.dataclass(frozen=True)
class Blob:
    """A part of the archive. Its name is its hash."""

    media_type: str
    content: bytes

    @property
    def hash(self):
        return hashlib.sha256(self.content).hexdigest()

    @property
    def path(self):
        return f"blobs/sha256/{self.hash}"

    def descriptor(self, **more):
        return {"mediaType": self.media_type, "digest": f"sha256:{self.hash}", "size": len(self.content), **more}


@dataclasses.dataclass(frozen=True)
class Image:
    """An image of an architecture, with one layer."""

    architecture: str
    manifest: Blob
    config: Blob
    layer: Blob

    @property
    def blobs(self):
        return (self.manifest, self.config, self.layer)

    @property
    def bytes(self):
        return sum(len(blob.content) for blob in self.blobs)

    @property
    def platform(self):
        return {"architecture": self.architecture, "os": "linux"}


def image(architecture, root, config, owners):
    """An image of the files below a directory, with the config for the engine. `owners` has, by path, the
    user and mode of files that do not belong to root or have an unusual mode."""
    layer = layer_of(root, owners)
    compressed = Blob("application/vnd.oci.image.layer.v1.tar+gzip", gzip.compress(layer, 9, mtime=0))
    whole = {
        "architecture": architecture,
        "os": "linux",
        "config": config,
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{hashlib.sha256(layer).hexdigest()}"]},
    }
    config = json_blob("application/vnd.oci.image.config.v1+json", whole)
    manifest = {"schemaVersion": 2, "mediaType": MANIFEST, "config": config.descriptor(), "layers": [compressed.descriptor()]}
    return Image(architecture, json_blob(MANIFEST, manifest), config, compressed)


def layer_of(root, owners):
    """The file system as an archive, uncompressed."""
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for path in sorted(root.rglob("*")):
            entry = archive.gettarinfo(path, arcname=str(path.relative_to(root)))
            usual = 0o755 if entry.isdir() or entry.mode & 0o100 else 0o644
            user, entry.mode = owners.get(entry.name, (0, usual))
            entry.uid = entry.gid = user
            entry.mtime = 0
            entry.uname = entry.gname = ""
            with path.open("rb") if entry.isreg() else contextlib.nullcontext() as file:
                archive.addfile(entry, file)
    return content.getvalue()


def json_blob(media_type, value):
    return Blob(media_type, json.dumps(value, sort_keys=True).encode())


def write(path, name, tag, images):
    """Writes the archive of an image, or of the same image for several architectures."""
    blobs = [blob for image in images for blob in image.blobs]
    if len(images) == 1:
        [image] = images
        top, platform = image.manifest, {"platform": image.platform}
    else:
        manifests = [image.manifest.descriptor(platform=image.platform) for image in images]
        top = json_blob(INDEX, {"schemaVersion": 2, "mediaType": INDEX, "manifests": manifests})
        platform = {}
        blobs.append(top)
    annotations = {"io.containerd.image.name": f"docker.io/library/{name}:{tag}", "org.opencontainers.image.ref.name": tag}
    index = {"schemaVersion": 2, "manifests": [top.descriptor(annotations=annotations, **platform)]}
    files = {
        "oci-layout": json.dumps({"imageLayoutVersion": "1.0.0"}).encode(),
        "index.json": json.dumps(index).encode(),
        **{blob.path: blob.content for blob in blobs},
    }
    if len(images) == 1:
        # The form for engines that are older than the layout of OCI.
        older = {"Config": image.config.path, "RepoTags": [f"{name}:{tag}"], "Layers": [image.layer.path]}
        files["manifest.json"] = json.dumps([older]).encode()
    with tarfile.open(path, "w", format=tarfile.PAX_FORMAT) as archive:
        for file, content in sorted(files.items()):
            entry = tarfile.TarInfo(file)
            entry.size, entry.mode = len(content), 0o644
            archive.addfile(entry, io.BytesIO(content))
