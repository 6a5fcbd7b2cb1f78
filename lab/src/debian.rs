//! Debian packages, fetched with the machine's own apt and unpacked into the cache; nothing is installed.

use crate::places::Places;
use crate::programs::run;
use anyhow::{Context, Result, bail};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A package and the suite it is taken from.
///
/// containerd and etcd come from trixie: bookworm's containerd has no CDI and its etcd is too old for this Kubernetes.
/// runc and the CNI plugins come from bookworm, because trixie's runc needs a newer C library.
const PACKAGES: &[(&str, &str)] = &[
    ("trixie", "containerd"),
    ("trixie", "etcd-server"),
    ("bookworm", "runc"),
    ("bookworm", "containernetworking-plugins"),
];

/// Changes when the list above does, so that an old cache is not taken for a new one.
const EDITION: &str = "1";

/// The `usr` folder with the unpacked packages, fetched if it is not there.
pub(crate) fn unpacked(places: &Places) -> Result<PathBuf> {
    unpacked_into(places, &format!("debian-{EDITION}"), PACKAGES)
}

/// The `usr` folder of one package, fetched if it is not there.
pub fn debian_package(places: &Places, suite: &str, package: &str) -> Result<PathBuf> {
    unpacked_into(places, &format!("debian-{suite}-{package}"), &[(suite, package)])
}

fn unpacked_into(places: &Places, name: &str, packages: &[(&str, &str)]) -> Result<PathBuf> {
    let folder = places.cache().join(name);
    let stamp = folder.join("complete");
    if stamp.exists() {
        return Ok(folder.join("usr"));
    }
    let names: Vec<&str> = packages.iter().map(|(_, package)| *package).collect();
    eprintln!("fetching {} from Debian", names.join(", "));
    if folder.exists() {
        fs::remove_dir_all(&folder)?;
    }
    fs::create_dir_all(&folder)?;
    for (suite, package) in packages {
        let archive = download(places, suite, package)?;
        run(Command::new("dpkg-deb").arg("-x").arg(&archive).arg(&folder))?;
    }
    fs::write(stamp, "")?;
    Ok(folder.join("usr"))
}

/// A package of Debian that goes into an image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Packaged {
    /// What it is called.
    pub name: String,
    /// Its version, as Debian writes it.
    pub version: String,
    /// For which processor, as Debian calls it.
    pub architecture: String,
    /// From which suite.
    pub suite: String,
    /// The file that was fetched.
    pub archive: PathBuf,
    /// What is in it, unpacked.
    pub folder: PathBuf,
}

/// A package for any processor: the newest there is, or the one that was fetched last where that is enough.
pub fn debian_package_for(
    places: &Places,
    suite: &str,
    package: &str,
    architecture: &str,
    newest: bool,
) -> Result<Packaged> {
    let source = Source { suite, architecture: Some(architecture) };
    let home = source.home(places);
    let archive = match found(&home, package) {
        Some(archive) if !newest => archive,
        _ => {
            eprintln!("fetching {package} for {architecture} from Debian");
            source.update(&home)?;
            fetch(&source, &home, package)?
        }
    };
    let field = |name: &str| -> Result<String> {
        let mut command = Command::new("dpkg-deb");
        let output =
            command.arg("--field").arg(&archive).arg(name).output().context("can not start dpkg-deb")?;
        if !output.status.success() {
            bail!("{} is no Debian package; remove it", archive.display());
        }
        Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
    };
    let (version, architecture) = (field("Version")?, field("Architecture")?);
    let folder = home.join("unpacked").join(archive.file_stem().context("a package has a name")?);
    if !folder.join("complete").exists() {
        fs::create_dir_all(&folder)?;
        run(Command::new("dpkg-deb").arg("-x").arg(&archive).arg(&folder))?;
        fs::write(folder.join("complete"), "")?;
    }
    let (name, suite) = (package.to_owned(), suite.to_owned());
    Ok(Packaged { name, version, architecture, suite, archive, folder })
}

/// Fetches one package of a suite for this machine.
fn download(places: &Places, suite: &str, package: &str) -> Result<PathBuf> {
    let source = Source { suite, architecture: None };
    let home = source.home(places);
    if !home.join("sources.list").exists() {
        source.update(&home)?;
    }
    fetch(&source, &home, package)
}

/// A suite, for this machine's processor or another.
struct Source<'a> {
    suite: &'a str,
    architecture: Option<&'a str>,
}

impl Source<'_> {
    /// Where an apt keeps its lists and its sources to itself.
    fn home(&self, places: &Places) -> PathBuf {
        let name = self.architecture.map_or(self.suite.to_owned(), |name| format!("{}-{name}", self.suite));
        places.cache().join("apt").join(name)
    }

    /// Learns what there is.
    fn update(&self, home: &Path) -> Result<()> {
        for folder in ["lists/partial", "cache/archives/partial", "packages"] {
            fs::create_dir_all(home.join(folder))?;
        }
        let line = format!("deb [signed-by={KEYRING}] {} {} main\n", mirror()?, self.suite);
        fs::write(home.join("sources.list"), line)?;
        run(self.apt(home).arg("update"))
            .map(drop)
            .with_context(|| format!("is Debian's {} reachable?", self.suite))
    }

    fn apt(&self, home: &Path) -> Command {
        let mut command = Command::new("apt-get");
        let option = |name: &str, path: &Path| format!("{name}={}", path.display());
        command
            .args(["-q", "-o", &option("Dir::Etc::SourceList", &home.join("sources.list"))])
            .args(["-o", "Dir::Etc::SourceParts=/dev/null"])
            .args(["-o", &option("Dir::State::Lists", &home.join("lists"))])
            .args(["-o", &option("Dir::Cache", &home.join("cache"))])
            .args(["-o", "APT::Sandbox::User=root"]);
        if let Some(architecture) = self.architecture {
            for name in ["APT::Architecture", "APT::Architectures"] {
                command.args(["-o", &format!("{name}={architecture}")]);
            }
        }
        command
    }
}

/// Fetches a package, in place of the one that was there.
fn fetch(source: &Source<'_>, home: &Path, package: &str) -> Result<PathBuf> {
    if let Some(older) = found(home, package) {
        fs::remove_file(older)?;
    }
    run(source.apt(home).args(["download", package]).current_dir(home.join("packages")))?;
    found(home, package).with_context(|| format!("apt downloaded no {package}"))
}

/// A package that was fetched.
fn found(home: &Path, package: &str) -> Option<PathBuf> {
    let prefix = format!("{package}_");
    let packages = fs::read_dir(home.join("packages")).ok()?.filter_map(|entry| Some(entry.ok()?.path()));
    packages
        .into_iter()
        .find(|path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(&prefix)))
}

const KEYRING: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";

/// The mirror this machine already uses for Debian itself.
fn mirror() -> Result<String> {
    let mut files = vec![PathBuf::from("/etc/apt/sources.list")];
    if let Ok(folder) = fs::read_dir("/etc/apt/sources.list.d") {
        files.extend(folder.filter_map(|entry| Some(entry.ok()?.path())));
    }
    files.sort();
    for file in files {
        let text = fs::read_to_string(&file).unwrap_or_default();
        if let Some(mirror) = mirror_in(&text) {
            return Ok(mirror);
        }
    }
    bail!(
        "no Debian mirror in /etc/apt; the tests take containerd, runc, etcd, CNI and jemalloc from Debian's packages"
    )
}

/// The first address of a Debian archive (not its security part) in a sources file of either format.
fn mirror_in(text: &str) -> Option<String> {
    let words = text.lines().filter(|line| !line.trim_start().starts_with('#')).filter_map(|line| {
        let line = line.trim();
        let rest = line.strip_prefix("URIs:").or_else(|| line.strip_prefix("deb "))?;
        rest.split_whitespace().find(|word| word.contains("://"))
    });
    let archive = |word: &&str| word.trim_end_matches('/').ends_with("/debian");
    words.into_iter().find(archive).map(|word| word.trim_end_matches('/').to_owned())
}

#[cfg(test)]
mod tests {
    use super::mirror_in;

    #[test]
    fn the_mirror_is_found_in_both_formats() {
        let old = "# deb http://no.example/debian x\ndeb [arch=amd64] http://mirror.example/debian/ bookworm main\n";
        assert_eq!(mirror_in(old).as_deref(), Some("http://mirror.example/debian"));
        let new = "Types: deb\nURIs: http://mirror.example/debian-security\n\nTypes: deb\nURIs: http://mirror.example/debian\n";
        assert_eq!(mirror_in(new).as_deref(), Some("http://mirror.example/debian"));
        assert_eq!(mirror_in("deb https://elsewhere.example/apt stable main"), None);
    }
}
