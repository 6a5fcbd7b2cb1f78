//! Whether the agent before this one ended as it should, so that one that was killed is told of and not only counted.

use std::fs;
use std::path::{Path, PathBuf};

/// A file that is there while an agent runs. It holds the boot of the machine: what a reboot ended was not killed.
#[derive(Debug)]
pub(crate) struct RunningMark {
    path: PathBuf,
}

impl RunningMark {
    /// Marks that an agent runs, and says what became of the one before if that is worth telling. A mark that can not
    /// be written is no reason not to run.
    pub(crate) fn begin(folder: &Path, boot: &str) -> (Self, Option<String>) {
        let path = folder.join("running");
        let killed = fs::read_to_string(&path).is_ok_and(|before| !boot.is_empty() && before == boot);
        let _ = fs::create_dir_all(folder).and_then(|()| fs::write(&path, boot));
        let message = killed.then(|| {
            "the agent before this one ended without being told to: it was killed, ran out of memory or failed; \
             its container's last state says which. Pods that ran kept their devices; pods that asked for one in \
             between were rejected by kubelet"
                .to_owned()
        });
        (RunningMark { path }, message)
    }

    /// This agent ends as it should.
    pub(crate) fn end(self) {
        let _ = fs::remove_file(&self.path);
    }
}

#[cfg(test)]
mod tests {
    use super::RunningMark;

    #[test]
    fn only_an_end_in_the_same_boot_that_nobody_asked_for_is_told() {
        let folder = tempfile::tempdir().expect("a folder");
        let begin = |boot: &str| RunningMark::begin(&folder.path().join("state"), boot);
        let (first, told) = begin("boot-1");
        assert_eq!(told, None, "there was none before");
        drop(first);
        let (second, told) = begin("boot-1");
        assert!(told.is_some_and(|text| text.contains("without being told to")));
        second.end();
        let (third, told) = begin("boot-1");
        assert_eq!(told, None, "the one before ended as it should");
        drop(third);
        let (_, told) = begin("boot-2");
        assert_eq!(told, None, "a reboot ends every agent");
        let (_, told) = RunningMark::begin(std::path::Path::new("/proc/no-such-folder"), "boot-2");
        assert_eq!(told, None, "a folder that can not be written is not its business");
    }
}
