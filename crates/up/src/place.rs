//! Where `carve up` keeps what it has, and how others find it there.

use serde_json::{Value, json};
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How long it may take to see that somebody listens on this machine.
const LISTENS: Duration = Duration::from_millis(300);

/// A folder of its own.
#[derive(Debug, Clone)]
pub struct Place {
    folder: PathBuf,
}

/// A `carve up` that answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Running {
    /// How clients of Kubernetes reach its objects.
    pub kubeconfig: PathBuf,
    /// Where its page is, without a slash at the end.
    pub url: String,
}

impl Place {
    /// The place in the state folder of a person.
    pub fn new(state: &Path) -> Self {
        Place { folder: state.join("up") }
    }

    /// The folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// How clients of Kubernetes reach it.
    pub fn kubeconfig(&self) -> PathBuf {
        self.folder.join("kubeconfig")
    }

    /// What whoever writes must know; the same from one start to the next.
    pub(crate) fn token(&self) -> io::Result<String> {
        let file = self.folder.join("token");
        match fs::read_to_string(&file) {
            Ok(text) if text.trim().len() >= 32 => return Ok(text.trim().to_owned()),
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
        let token = format!("{}{}", uuid::Uuid::new_v4().simple(), uuid::Uuid::new_v4().simple());
        self.write("token", &token)?;
        Ok(token)
    }

    /// Where objects are, for those who know the token.
    pub(crate) fn objects_path(token: &str) -> String {
        format!("/kubernetes/{token}")
    }

    /// Says where it is.
    pub(crate) fn announce(&self, address: SocketAddr, token: &str) -> io::Result<()> {
        let url = format!("http://{address}");
        let config = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "carve-up",
            "clusters": [{"name": "carve-up", "cluster": {"server": format!("{url}{}", Self::objects_path(token))}}],
            "users": [{"name": "carve-up", "user": {}}],
            "contexts": [{"name": "carve-up", "context": {"cluster": "carve-up", "user": "carve-up", "namespace": "default"}}],
        });
        // JSON is YAML, too.
        self.write("kubeconfig", &format!("{config:#}\n"))
    }

    /// Says that it is gone.
    pub(crate) fn retire(&self) {
        let _ = fs::remove_file(self.kubeconfig());
    }

    /// Only for whoever it belongs to, and whole or not at all.
    fn write(&self, name: &str, text: &str) -> io::Result<()> {
        fs::create_dir_all(&self.folder)?;
        let beside = self.folder.join(format!("{name}.new"));
        let _ = fs::remove_file(&beside);
        let mut file = OpenOptions::new().create_new(true).write(true).mode(0o600).open(&beside)?;
        file.write_all(text.as_bytes())?;
        file.sync_data()?;
        fs::rename(&beside, self.folder.join(name))
    }

    /// The one that runs here, if one does and answers.
    pub fn running(&self) -> Option<Running> {
        let kubeconfig = self.kubeconfig();
        let config: Value = serde_json::from_str(&fs::read_to_string(&kubeconfig).ok()?).ok()?;
        let server = config["clusters"][0]["cluster"]["server"].as_str()?;
        let url = server.split_once("/kubernetes/")?.0.to_owned();
        let address: SocketAddr = url.strip_prefix("http://")?.parse().ok()?;
        // One that was killed leaves the file.
        TcpStream::connect_timeout(&address, LISTENS).ok()?;
        Some(Running { kubeconfig, url })
    }
}

#[cfg(test)]
mod tests {
    use super::Place;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn whoever_runs_is_found_and_whoever_was_killed_is_not() {
        let folder = tempfile::tempdir().expect("a folder");
        let place = Place::new(folder.path());
        assert_eq!(place.running(), None);
        let token = place.token().expect("a token");
        assert_eq!(place.token().expect("the same"), token);
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("an address");
        let address = listener.local_addr().expect("an address");
        place.announce(address, &token).expect("written");
        let mode = std::fs::metadata(place.kubeconfig()).expect("a file").permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        assert_eq!(place.running().expect("it runs").url, format!("http://{address}"));
        drop(listener);
        assert_eq!(place.running(), None);
        place.retire();
        assert!(!place.kubeconfig().exists());
    }
}
