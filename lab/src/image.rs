//! Images for the lab: programs of this machine with the libraries they need.

use crate::programs::run;
use anyhow::{Context, Result};
use carve_oci_image::{Image, layout};
use carve_test_support::libraries_of;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What the lab does with images.
pub trait Programs: Sized {
    /// Adds a program with the shared libraries it needs, at the places where its loader looks for them.
    fn program(self, source: &Path, path: &str) -> Result<Self>;

    /// Writes the image as a tar file that `ctr images import` takes.
    fn write(&self, path: &Path) -> Result<()>;
}

impl Programs for Image {
    fn program(mut self, source: &Path, path: &str) -> Result<Self> {
        let read = |file: &Path| fs::read(file).with_context(|| file.display().to_string());
        for library in libraries_of(source).with_context(|| source.display().to_string())? {
            self = self.file(&library, read(&library)?, true);
        }
        Ok(self.file(path, read(source)?, true))
    }

    fn write(&self, path: &Path) -> Result<()> {
        let tar = layout(std::slice::from_ref(self)).with_context(|| self.name().to_owned())?;
        fs::write(path, tar).with_context(|| path.display().to_string())
    }
}

/// The pause image, made of a static program.
pub(crate) fn pause(go_module: &Path, cache: &Path) -> Result<PathBuf> {
    let tar = cache.join("pause-1.tar");
    if tar.exists() {
        return Ok(tar);
    }
    let program = cache.join("pause");
    let mut go = Command::new("go");
    go.args(["build", "-trimpath", "-ldflags", "-s -w", "-o"]).arg(&program).arg("pause/main.go");
    run(go
        .current_dir(go_module)
        .env("CGO_ENABLED", "0")
        .env("GOFLAGS", "-buildvcs=false")
        .env("GOWORK", "off"))?;
    let image = Image::new(crate::config::PAUSE).program(&program, "/pause")?.entrypoint(["/pause"]);
    let new = tar.with_extension("new");
    image.write(&new)?;
    fs::rename(&new, &tar)?;
    Ok(tar)
}

#[cfg(test)]
mod tests {
    use super::Programs;
    use carve_oci_image::Image;
    use std::path::Path;

    #[test]
    fn a_program_comes_with_its_libraries() {
        let image = Image::new("localhost/x:1").program(Path::new("/bin/sh"), "/bin/shell").unwrap();
        let names: Vec<String> = image.files().files().map(|path| path.display().to_string()).collect();
        assert!(names.contains(&"bin/shell".to_owned()), "{names:?}");
        assert!(names.iter().any(|name| name.contains("libc.so")), "{names:?}");
    }
}
