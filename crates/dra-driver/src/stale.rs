//! Removes sockets that dead instances of the driver left behind: kubelet would go on dialling them after each of its starts.

use std::io;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::net::UnixStream;

/// An instance that is just starting has its socket bound a moment before it listens.
const MOMENT: Duration = Duration::from_millis(100);

/// Removes the sockets of a folder that have the name of an instance, other than `mine`, and on which nobody listens.
pub(crate) async fn sweep(folder: &Path, mine: &Path, is_instance: impl Fn(&str) -> bool) {
    let entries = match std::fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) => {
            tracing::debug!("{} is not looked through for stale sockets: {error}", folder.display());
            return;
        }
    };
    let others: Vec<PathBuf> = entries
        .flatten()
        .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_socket()))
        .filter(|entry| entry.file_name().to_str().is_some_and(&is_instance))
        .map(|entry| entry.path())
        .filter(|path| path != mine)
        .collect();
    let mut dead = Vec::new();
    for path in others {
        if nobody_listens(&path).await {
            dead.push(path);
        }
    }
    if dead.is_empty() {
        return;
    }
    tokio::time::sleep(MOMENT).await;
    for path in dead {
        if !nobody_listens(&path).await {
            continue;
        }
        match std::fs::remove_file(&path) {
            Ok(()) => tracing::info!("removed {}, which a dead instance left behind", path.display()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => tracing::warn!("can not remove the stale socket {}: {error}", path.display()),
        }
    }
}

/// Whether the kernel says that nobody is there; a process that is merely slow has a queue that takes the connection.
async fn nobody_listens(path: &Path) -> bool {
    let connected = UnixStream::connect(path).await;
    connected.is_err_and(|error| error.kind() == io::ErrorKind::ConnectionRefused)
}
