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
    let mut image = Image::new(&format!("carve:{}", of.version))
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
