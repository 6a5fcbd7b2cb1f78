//! Fetches CUDA's headers from NVIDIA's Python packages into the cache, once for each release.

use crate::cache;
use crate::run::read;
use anyhow::{Context, Result, bail};
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The package that has every release since CUDA 13, and will have the next.
const NEWEST: &str = "nvidia-cuda-runtime";

/// The last build of each minor release, the oldest first: what programs in use were compiled with.
const RELEASES: &[(&str, Version)] = &[
    ("nvidia-cuda-runtime-cu11", Version(11, 8, 89)),
    ("nvidia-cuda-runtime-cu12", Version(12, 0, 146)),
    ("nvidia-cuda-runtime-cu12", Version(12, 1, 105)),
    ("nvidia-cuda-runtime-cu12", Version(12, 2, 140)),
    ("nvidia-cuda-runtime-cu12", Version(12, 3, 101)),
    ("nvidia-cuda-runtime-cu12", Version(12, 4, 127)),
    ("nvidia-cuda-runtime-cu12", Version(12, 5, 82)),
    ("nvidia-cuda-runtime-cu12", Version(12, 6, 77)),
    ("nvidia-cuda-runtime-cu12", Version(12, 8, 90)),
    ("nvidia-cuda-runtime-cu12", Version(12, 9, 79)),
    (NEWEST, Version(13, 0, 96)),
    (NEWEST, Version(13, 1, 80)),
    (NEWEST, Version(13, 2, 86)),
    (NEWEST, Version(13, 3, 29)),
    (NEWEST, Version(13, 4, 92)),
    (NEWEST, Version(13, 5, 37)),
];

/// A build of CUDA's runtime package.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Version(u32, u32, u32);

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.0, self.1, self.2)
    }
}

impl Version {
    fn parse(text: &str) -> Option<Version> {
        let mut numbers = text.split('.').map(|number| number.parse().ok());
        let version = Version(numbers.next()??, numbers.next()??, numbers.next()??);
        numbers.next().is_none().then_some(version)
    }

    /// `nvidia_cuda_runtime-13.4.92-py3-none-….whl`.
    fn of_wheel(name: &str) -> Option<Version> {
        Version::parse(name.split('-').nth(1)?)
    }
}

/// A folder of headers for each release, the oldest first, and last the newest there is. Only the newest is asked for
/// each time; where it can not be, the newest in the cache has to do.
pub(crate) fn folders() -> Result<Vec<(Version, PathBuf)>> {
    let home = cache().join("cuda-headers");
    fs::create_dir_all(&home).with_context(|| home.display().to_string())?;
    let mut folders = Vec::new();
    for (package, version) in RELEASES {
        let folder = home.join(format!("{package}-{version}"));
        if !folder.exists() {
            eprintln!("fetching the headers of CUDA {version}");
            fetch(&home, package, Some(*version)).with_context(|| {
                format!(
                    "{} has no headers of CUDA {version}, and they can not be fetched; run this once where \
                     python3, pip and a package index can be reached",
                    home.display()
                )
            })?;
        }
        folders.push((*version, folder));
    }
    let known = folders.last().map_or(Version(0, 0, 0), |(version, _)| *version);
    let newest = match fetch(&home, NEWEST, None) {
        Ok(version) if version < known => bail!(
            "pip answers {version} as the newest {NEWEST}, and {known} is known: wheels may have platform \
             names that xtask/src/cuda_symbols/fetch.rs does not ask for, or the index is an old copy"
        ),
        Ok(version) => version,
        Err(error) => {
            let version = newest_cached(&home)?.unwrap_or(known);
            eprintln!("the newest CUDA can not be asked for, so {version} in the cache has to do: {error:#}");
            version
        }
    };
    if newest > known {
        folders.push((newest, home.join(format!("{NEWEST}-{newest}"))));
    }
    Ok(folders)
}

/// The greatest version of the package that goes on.
fn newest_cached(home: &Path) -> Result<Option<Version>> {
    let mut newest = None;
    for entry in fs::read_dir(home)? {
        let name = entry?.file_name();
        let version = name.to_str().and_then(|name| name.strip_prefix(NEWEST)?.strip_prefix('-'));
        newest = newest.max(version.and_then(Version::parse));
    }
    Ok(newest)
}

/// Downloads a wheel and keeps its headers; answers which version it was.
fn fetch(home: &Path, package: &str, version: Option<Version>) -> Result<Version> {
    // A folder of this process alone, so that two runs at once do not meet; it takes its name when it is whole.
    let work = home.join(format!("new-{}", std::process::id()));
    let fetched = fetch_within(&work, home, package, version);
    let cleaned = if work.exists() { fs::remove_dir_all(&work) } else { Ok(()) };
    let version = fetched?;
    cleaned.with_context(|| format!("can not remove {}", work.display()))?;
    Ok(version)
}

fn fetch_within(work: &Path, home: &Path, package: &str, version: Option<Version>) -> Result<Version> {
    let (wheels, files, headers) = (work.join("wheels"), work.join("files"), work.join("headers"));
    for folder in [&wheels, &files, &headers] {
        fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
    }
    let wanted = version.map_or(package.to_owned(), |version| format!("{package}=={version}"));
    download(&wanted, &wheels)?;
    let wheel = fs::read_dir(&wheels)?.next().with_context(|| format!("pip left nothing of {wanted}"))??;
    let name = wheel.file_name().to_string_lossy().into_owned();
    let version = Version::of_wheel(&name).with_context(|| format!("{name} does not say its version"))?;
    let folder = home.join(format!("{package}-{version}"));
    if folder.exists() {
        return Ok(version);
    }
    read(Command::new("python3").args(["-m", "zipfile", "-e"]).arg(wheel.path()).arg(&files))?;
    let include = folder_of("cuda.h", &files)?.with_context(|| format!("{name} has no cuda.h"))?;
    for entry in fs::read_dir(&include)? {
        let path = entry?.path();
        // Others declare the runtime's functions, or C++.
        let of_driver = path.is_file() && String::from_utf8_lossy(&fs::read(&path)?).contains("CUDAAPI");
        if let Some(name) = path.file_name().filter(|_| of_driver) {
            fs::copy(&path, headers.join(name))?;
        }
    }
    match fs::rename(&headers, &folder) {
        // Another run was first.
        Err(_) if folder.exists() => Ok(version),
        renamed => renamed.map(|()| version).with_context(|| folder.display().to_string()),
    }
}

/// Has pip put a wheel into a folder. The command is too long to be shown whole where it fails.
fn download(wanted: &str, folder: &Path) -> Result<()> {
    let mut command = Command::new("python3");
    command.args([
        "-m",
        "pip",
        "download",
        "--quiet",
        "--disable-pip-version-check",
        "--no-input",
        "--no-deps",
    ]);
    command.args(["--retries", "1", "--only-binary", ":all:"]);
    // Headers are the same for every machine. Every name that a wheel for Linux may have is asked for: where one is
    // left out, pip answers an older wheel, or a placeholder.
    command.args(["--platform", "manylinux2014_x86_64"]);
    for glibc in 17..=60 {
        command.args(["--platform", &format!("manylinux_2_{glibc}_x86_64")]);
    }
    let output = command.arg("--dest").arg(folder).arg(wanted).output().context("can not start python3")?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        bail!("`python3 -m pip download {wanted}` failed ({}): {}", output.status, said.trim());
    }
    Ok(())
}

/// The folder below which a file of this name is first found.
fn folder_of(name: &str, folder: &Path) -> Result<Option<PathBuf>> {
    if folder.join(name).exists() {
        return Ok(Some(folder.to_owned()));
    }
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir()
            && let Some(found) = folder_of(name, &path)?
        {
            return Ok(Some(found));
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::{RELEASES, Version};

    #[test]
    fn releases_are_in_order() {
        assert!(RELEASES.windows(2).all(|pair| pair[0].1 < pair[1].1));
    }

    #[test]
    fn the_name_of_a_wheel_says_its_version() {
        let name = "nvidia_cuda_runtime-13.4.92-py3-none-manylinux2014_x86_64.manylinux_2_17_x86_64.whl";
        assert_eq!(Version::of_wheel(name), Some(Version(13, 4, 92)));
        for other in [
            "nvidia_cuda_runtime-0.0.0a0-py2.py3-none-any.whl",
            "x-1.2-py3.whl",
            "x-1.2.3.4-py3.whl",
            "x",
            "",
        ] {
            assert_eq!(Version::of_wheel(other), None, "{other}");
        }
        assert!(Version(13, 10, 1) > Version(13, 9, 120));
    }
}
