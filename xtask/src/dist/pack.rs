//! From programs, chart and texts to the files of a release: a function of its input, so that two runs can be compared.

use crate::dist::c_library::CLibrary;
use crate::limiter;
use anyhow::Result;
use carve_oci_image::{Architecture, Archive, Image, layout, sha256};
use std::collections::BTreeMap;

/// Everything that a release is made of.
#[derive(Debug, Clone)]
pub(crate) struct Ingredients {
    pub(crate) version: String,
    pub(crate) programs: Vec<Program>,
    /// The chart's files, seen from its folder.
    pub(crate) chart: Vec<(String, Vec<u8>)>,
    /// What is in the programs and images, as CycloneDX has it.
    pub(crate) parts: String,
    /// Licence and the like, for the archives.
    pub(crate) texts: Vec<(&'static str, Vec<u8>)>,
}

/// What there is for a processor.
#[derive(Debug, Clone)]
pub(crate) struct Program {
    pub(crate) architecture: Architecture,
    pub(crate) carve: Vec<u8>,
    pub(crate) limiter: Option<Vec<u8>>,
    pub(crate) c_library: CLibrary,
}

/// Name of the file with the checksums of all others.
pub(crate) const SUMS: &str = "SHA256SUMS";

/// The files of a release, by name.
pub(crate) fn pack(of: &Ingredients) -> Result<BTreeMap<String, Vec<u8>>> {
    let version = &of.version;
    let mut files = BTreeMap::new();
    for program in &of.programs {
        let name = format!("carve-{version}-{}-linux", program.architecture.compiler_name());
        files.insert(format!("{name}.tar.gz"), archive(&name, program, of).tar_gz()?);
    }
    files.insert(format!("carve-chart-{version}.tgz"), chart(of).tar_gz()?);
    let images: Vec<Image> = of.programs.iter().map(|program| image(program, of)).collect();
    files.insert(image_name(version), layout(&images)?);
    files.insert(format!("carve-{version}.cdx.json"), of.parts.clone().into_bytes());
    let sums: String = files.iter().map(|(name, bytes)| format!("{}  {name}\n", sha256(bytes))).collect();
    files.insert(SUMS.to_owned(), sums.into_bytes());
    Ok(files)
}

/// What the file with the images is called.
pub(crate) fn image_name(version: &str) -> String {
    format!("carve-image-{version}.tar")
}

/// The programs for a machine without containers: carve finds the limiter beside itself.
fn archive(name: &str, program: &Program, of: &Ingredients) -> Archive {
    let mut archive = Archive::new();
    archive.file(format!("{name}/carve"), program.carve.clone(), true);
    if let Some(library) = &program.limiter {
        archive.file(format!("{name}/{}", limiter::LIBRARY), library.clone(), true);
    }
    for (text, contents) in &of.texts {
        archive.file(format!("{name}/{text}"), contents.clone(), false);
    }
    archive
}

fn chart(of: &Ingredients) -> Archive {
    let mut archive = Archive::new();
    for (path, contents) in &of.chart {
        archive.file(format!("carve/{path}"), contents.clone(), false);
    }
    archive
}

/// Root, because the agent needs it, and the user that the chart has the controller run as.
const USERS: &str = "root:x:0:0:root:/:/nologin\nnonroot:x:65532:65532:nonroot:/:/nologin\n";
const GROUPS: &str = "root:x:0:\nnonroot:x:65532:\n";

/// carve, the limiter, the C library, and no shell.
fn image(program: &Program, of: &Ingredients) -> Image {
    // The chart's `carve:VERSION`, as container runtimes complete it: imported on a node, it is found without a registry.
    let mut image = Image::new(&format!("docker.io/library/carve:{}", of.version))
        .architecture(program.architecture)
        .compressed()
        .file("/usr/bin/carve", program.carve.clone(), true)
        .file("/etc/passwd", USERS.into(), false)
        .file("/etc/group", GROUPS.into(), false)
        .env("PATH", "/usr/bin")
        // The only folder that anybody may write to.
        .env("HOME", "/tmp")
        .entrypoint(["/usr/bin/carve"])
        .annotation("org.opencontainers.image.title", "carve")
        .annotation("org.opencontainers.image.description", "GPU slicing for Kubernetes")
        .annotation("org.opencontainers.image.licenses", "Apache-2.0")
        .annotation("org.opencontainers.image.version", &of.version);
    if let Some(library) = &program.limiter {
        image = image.file(format!("/usr/lib/carve/{}", limiter::LIBRARY), library.clone(), true);
    }
    for (text, contents) in &of.texts {
        if *text == "LICENSE" {
            image = image.file("/usr/share/doc/carve/LICENSE", contents.clone(), false);
        }
    }
    program.c_library.put(image)
}

#[cfg(test)]
mod tests {
    use super::{Ingredients, Program, SUMS, pack};
    use crate::dist::c_library::CLibrary;
    use crate::dist::check::{layer_of, sums};
    use carve_oci_image::Architecture;
    use std::collections::BTreeMap;
    use std::io::Read;

    fn ingredients() -> Ingredients {
        let program = |architecture: Architecture, limiter: Option<Vec<u8>>| {
            let carve = architecture.name().as_bytes().to_vec();
            Program { architecture, carve, limiter, c_library: CLibrary::default() }
        };
        Ingredients {
            version: "1.2.3".to_owned(),
            programs: vec![program(Architecture::Amd64, Some(vec![7])), program(Architecture::Arm64, None)],
            chart: vec![("Chart.yaml".to_owned(), b"name: carve".to_vec())],
            parts: "{}".to_owned(),
            texts: vec![("LICENSE", b"free".to_vec())],
        }
    }

    fn names(tar: impl Read) -> Vec<String> {
        let mut archive = tar::Archive::new(tar);
        let entries = archive.entries().unwrap();
        entries.map(|entry| entry.unwrap().path().unwrap().display().to_string()).collect()
    }

    fn names_of(files: &BTreeMap<String, Vec<u8>>, name: &str) -> Vec<String> {
        names(flate2::read::GzDecoder::new(&files[name][..]))
    }

    #[test]
    fn a_release_has_its_files_and_their_sums() {
        let mut files = pack(&ingredients()).unwrap();
        assert_eq!(
            files.keys().collect::<Vec<_>>(),
            [
                SUMS,
                "carve-1.2.3-aarch64-linux.tar.gz",
                "carve-1.2.3-x86_64-linux.tar.gz",
                "carve-1.2.3.cdx.json",
                "carve-chart-1.2.3.tgz",
                "carve-image-1.2.3.tar"
            ]
        );
        sums(&files).unwrap();
        files.insert("carve-1.2.3.cdx.json".to_owned(), b"{ }".to_vec());
        assert_eq!(sums(&files).unwrap_err().to_string(), "carve-1.2.3.cdx.json is not what SHA256SUMS says");
        files.remove("carve-1.2.3.cdx.json");
        assert!(sums(&files).is_err());
    }

    #[test]
    fn archives_have_one_folder_and_the_limiter_only_where_there_is_one() {
        let files = pack(&ingredients()).unwrap();
        let folder = "carve-1.2.3-x86_64-linux";
        let inside = ["LICENSE", "carve", "libcarve_limiter.so"].map(|name| format!("{folder}/{name}"));
        assert_eq!(names_of(&files, "carve-1.2.3-x86_64-linux.tar.gz")[1..], inside);
        assert_eq!(names_of(&files, "carve-1.2.3-aarch64-linux.tar.gz").len(), 3);
        assert_eq!(names_of(&files, "carve-chart-1.2.3.tgz"), ["carve", "carve/Chart.yaml"]);
    }

    #[test]
    fn the_image_has_for_each_processor_its_own_program() {
        let files = pack(&ingredients()).unwrap();
        for architecture in [Architecture::Amd64, Architecture::Arm64] {
            let layer = layer_of(&files["carve-image-1.2.3.tar"], architecture).unwrap();
            let found = names(&layer[..]);
            let limiter = found.iter().any(|name| name == "usr/lib/carve/libcarve_limiter.so");
            assert_eq!(limiter, architecture == Architecture::Amd64, "{found:?}");
            let contents = architecture.name().as_bytes();
            assert!(layer.windows(contents.len()).any(|window| window == contents));
        }
    }
}
