//! Images as an OCI image layout in one tar file.

use crate::archive::{Archive, ArchiveError, gzip};
use crate::image::Image;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
const INDEX: &str = "application/vnd.oci.image.index.v1+json";
const CONFIG: &str = "application/vnd.oci.image.config.v1+json";
const LAYER: &str = "application/vnd.oci.image.layer.v1.tar";

/// When every image was made: a clock would make each build another image.
const CREATED: &str = "1970-01-01T00:00:00Z";

/// A tar file that `ctr images import`, `skopeo` and `crane` take: one image, which several platforms have under the name of the first.
pub fn layout(images: &[Image]) -> Result<Vec<u8>, ArchiveError> {
    let mut archive = Archive::new();
    archive.file("oci-layout", br#"{"imageLayoutVersion":"1.0.0"}"#.to_vec(), false);
    let mut manifests =
        images.iter().map(|image| manifest(image, &mut archive)).collect::<Result<Vec<_>, _>>()?;
    let mut top = match manifests.len() {
        1 => manifests.remove(0),
        _ => {
            let annotations = images.first().map(|image| &image.annotations);
            let index = json!({"schemaVersion": 2, "mediaType": INDEX, "manifests": manifests, "annotations": annotations});
            put(&mut archive, INDEX, index.to_string().into_bytes())
        }
    };
    let name = images.first().map_or("", Image::name);
    // containerd takes the whole name, others the tag; a colon before the last slash is that of a port.
    let tag = name.rsplit_once(':').map(|(_, tag)| tag).filter(|tag| !tag.contains('/')).unwrap_or("latest");
    top["annotations"] = json!({"io.containerd.image.name": name, "org.opencontainers.image.ref.name": tag});
    let index = json!({"schemaVersion": 2, "mediaType": INDEX, "manifests": [top]});
    archive.file("index.json", index.to_string().into_bytes(), false);
    archive.tar()
}

/// Puts an image's blobs into the archive, and describes its manifest.
fn manifest(image: &Image, archive: &mut Archive) -> Result<Value, ArchiveError> {
    let layer = image.files.tar()?;
    // By what is in it, however it is packed.
    let contents = format!("sha256:{}", sha256(&layer));
    let layer = if image.compressed {
        put(archive, &format!("{LAYER}+gzip"), gzip(&layer))
    } else {
        put(archive, LAYER, layer)
    };
    let mut runs = json!({"Entrypoint": image.entrypoint, "Env": image.environment, "WorkingDir": "/"});
    if let Some(user) = &image.user {
        runs["User"] = json!(user);
    }
    if !image.annotations.is_empty() {
        runs["Labels"] = json!(image.annotations);
    }
    let architecture = image.architecture.name();
    let config = json!({
        "created": CREATED,
        "architecture": architecture,
        "os": "linux",
        "config": runs,
        "rootfs": {"type": "layers", "diff_ids": [contents]},
        "history": [{"created": CREATED, "created_by": "carve"}],
    });
    let config = put(archive, CONFIG, config.to_string().into_bytes());
    let mut manifest =
        json!({"schemaVersion": 2, "mediaType": MANIFEST, "config": config, "layers": [layer]});
    if !image.annotations.is_empty() {
        manifest["annotations"] = json!(image.annotations);
    }
    let mut described = put(archive, MANIFEST, manifest.to_string().into_bytes());
    described["platform"] = json!({"architecture": architecture, "os": "linux"});
    Ok(described)
}

/// Adds a blob and describes it.
fn put(archive: &mut Archive, kind: &str, bytes: Vec<u8>) -> Value {
    let hash = sha256(&bytes);
    let size = bytes.len();
    archive.file(format!("blobs/sha256/{hash}"), bytes, false);
    json!({"mediaType": kind, "digest": format!("sha256:{hash}"), "size": size})
}

/// A SHA-256 as people write it.
pub fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::{layout, sha256};
    use crate::{Architecture, Image};
    use serde_json::{Value, json};
    use std::collections::BTreeMap;
    use std::io::Read;

    fn image(architecture: Architecture) -> Image {
        Image::new("localhost/carve:1")
            .architecture(architecture)
            .file("/usr/bin/carve", architecture.name().as_bytes().to_vec(), true)
            .entrypoint(["/usr/bin/carve"])
            .user("65532:65532")
            .annotation("org.opencontainers.image.version", "1")
            .compressed()
    }

    fn both() -> Vec<u8> {
        layout(&[Architecture::Amd64, Architecture::Arm64].map(image)).unwrap()
    }

    fn unpacked(tar: &[u8]) -> BTreeMap<String, Vec<u8>> {
        let mut archive = tar::Archive::new(tar);
        let mut files = BTreeMap::new();
        for entry in archive.entries().unwrap() {
            let mut entry = entry.unwrap();
            let mut bytes = Vec::new();
            entry.read_to_end(&mut bytes).unwrap();
            if entry.header().entry_type().is_file() {
                files.insert(entry.path().unwrap().display().to_string(), bytes);
            }
        }
        files
    }

    /// What a descriptor leads to, if its size and digest hold.
    fn blob<'a>(files: &'a BTreeMap<String, Vec<u8>>, descriptor: &Value) -> &'a [u8] {
        let digest = descriptor["digest"].as_str().unwrap().strip_prefix("sha256:").unwrap();
        let bytes = &files[&format!("blobs/sha256/{digest}")];
        assert_eq!(sha256(bytes), digest);
        assert_eq!(descriptor["size"], bytes.len());
        bytes
    }

    fn json_blob(files: &BTreeMap<String, Vec<u8>>, descriptor: &Value) -> Value {
        serde_json::from_slice(blob(files, descriptor)).unwrap()
    }

    #[test]
    fn the_same_images_are_the_same_bytes() {
        assert_eq!(both(), both());
        let other = layout(&[image(Architecture::Amd64), image(Architecture::Arm64).env("A", "b")]);
        assert_ne!(both(), other.unwrap());
    }

    #[test]
    fn every_digest_holds_from_the_index_to_the_layers_and_both_platforms_are_there() {
        let files = unpacked(&both());
        let index: Value = serde_json::from_slice(&files["index.json"]).unwrap();
        let names = &index["manifests"][0]["annotations"];
        assert_eq!(names["io.containerd.image.name"], "localhost/carve:1");
        assert_eq!(names["org.opencontainers.image.ref.name"], "1");
        let platforms = json_blob(&files, &index["manifests"][0]);
        let mut met = Vec::new();
        for described in platforms["manifests"].as_array().unwrap() {
            let manifest = json_blob(&files, described);
            assert_eq!(manifest["annotations"]["org.opencontainers.image.version"], "1");
            let config = json_blob(&files, &manifest["config"]);
            assert_eq!(config["config"]["User"], "65532:65532");
            assert_eq!(config["config"]["Labels"]["org.opencontainers.image.version"], "1");
            assert_eq!(config["architecture"], described["platform"]["architecture"]);
            let mut layer = Vec::new();
            let packed = blob(&files, &manifest["layers"][0]);
            flate2::read::GzDecoder::new(packed).read_to_end(&mut layer).unwrap();
            assert_eq!(config["rootfs"]["diff_ids"], json!([format!("sha256:{}", sha256(&layer))]));
            let inside = unpacked(&layer);
            assert_eq!(inside["usr/bin/carve"], config["architecture"].as_str().unwrap().as_bytes());
            met.push(described["platform"].clone());
        }
        let platform = |name: &str| json!({"architecture": name, "os": "linux"});
        assert_eq!(met, [platform("amd64"), platform("arm64")]);
        // Nothing is there that nothing leads to: the index of platforms, and a manifest, a config and a layer of each.
        assert_eq!(files.keys().filter(|name| name.starts_with("blobs/")).count(), 7);
    }

    #[test]
    fn one_platform_needs_no_index_of_them() {
        let files = unpacked(&layout(&[Image::new("localhost:5000/x").file("/x", vec![1], false)]).unwrap());
        let index: Value = serde_json::from_slice(&files["index.json"]).unwrap();
        assert_eq!(index["manifests"][0]["annotations"]["org.opencontainers.image.ref.name"], "latest");
        let manifest = json_blob(&files, &index["manifests"][0]);
        assert_eq!(manifest["layers"][0]["mediaType"], super::LAYER);
        assert_eq!(unpacked(blob(&files, &manifest["layers"][0]))["x"], [1]);
    }
}
