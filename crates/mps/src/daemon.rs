//! The daemon of one part: found or started, limited, looked at, ended.

use crate::compute_mode::{self, ComputeMode};
use crate::directories::Note;
use crate::{ClientProbe, Control, ControlError, DaemonError, DirectoryError, MemoryTold, MpsSettings};
use crate::{PartDirectories, ProbeError, UserMode, Users, verdict};
use carve_slicing::PartId;
use carve_slicing::mps::MpsLimits;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom};
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;
use tokio::process::Child;
use tokio::time::{Instant, sleep};

/// Time between two looks whether a new daemon listens.
const KNOCK: Duration = Duration::from_millis(20);
/// How much of a log is told when a daemon died.
const LAST_WORDS: usize = 3;

/// The daemon of one part, whether it runs or not.
#[derive(Debug)]
pub(crate) struct Daemon {
    settings: Arc<MpsSettings>,
    part: PartId,
    directories: PartDirectories,
    control: Control,
    /// The process, where this one started it.
    child: Option<Child>,
    users_together: bool,
    users: Users,
    log_read: u64,
}

impl Daemon {
    pub(crate) fn new(settings: Arc<MpsSettings>, part: PartId) -> Result<Self, DirectoryError> {
        let directories = PartDirectories::new(&settings.root, &part)?;
        let control = Control::new(&settings, &part, &directories);
        let users = Users::default();
        let (child, users_together, log_read) = (None, false, 0);
        Ok(Daemon { settings, part, directories, control, child, users_together, users, log_read })
    }

    /// Whether it was started by an earlier process.
    pub(crate) fn is_adopted(&self) -> bool {
        self.child.is_none()
    }

    pub(crate) fn prepare(&self) -> Result<Vec<String>, DaemonError> {
        Ok(self.directories.prepare(&self.settings)?)
    }

    pub(crate) async fn is_there(&self) -> Result<bool, DaemonError> {
        Ok(self.control.is_there().await?)
    }

    /// How many clients are connected.
    pub(crate) async fn clients(&self) -> Result<usize, DaemonError> {
        Ok(self.control.clients().await?.len())
    }

    /// Starts one and waits until it listens. It has no limits yet. Answers what an operator should know.
    pub(crate) async fn start(&mut self) -> Result<Vec<String>, DaemonError> {
        self.directories.remove_note()?;
        compute_mode::set(&self.settings, &self.part, ComputeMode::ExclusiveProcess).await?;
        self.users_together =
            self.settings.users == UserMode::Together && self.control.can_serve_users_together().await?;
        let log = self.new_log()?;
        let not_started =
            |source| DaemonError::NotStarted { program: self.settings.control_program.clone(), source };
        let mut command = self.control.program();
        // In the foreground it is a child whose end is noticed; its own process group keeps a terminal's or a
        // supervisor's signals to this process away from it.
        command.arg("-f").args(self.users_together.then_some("-multiuser-server")).process_group(0);
        command.stdin(Stdio::null()).stdout(log.try_clone().map_err(not_started)?).stderr(log);
        let child = command.spawn().map_err(not_started)?;
        // At once, so that servers are its children there: a process that exists already does not follow its parent.
        let moved =
            self.settings.cgroup.as_ref().zip(child.id()).map(|(home, process)| home.take_in(process));
        self.child = Some(child);
        self.users = Users::default();
        self.log_read = 0;

        let deadline = Instant::now() + self.settings.start_timeout;
        loop {
            if let Some(death) = self.death() {
                return Err(death);
            }
            match self.control.is_there().await {
                Ok(true) => return Ok(moved.unwrap_or_default()),
                // While it starts, a half-made pipe directory may be answered with any error.
                Ok(false) | Err(ControlError::Refused { .. }) => {}
                Err(error) => return Err(error.into()),
            }
            if Instant::now() >= deadline {
                let seconds = self.settings.start_timeout.as_secs();
                return Err(DaemonError::NotListening { seconds, log: self.directories.control_log() });
            }
            sleep(KNOCK).await;
        }
    }

    /// An empty log; that of the daemon before is kept beside it.
    fn new_log(&self) -> Result<File, DirectoryError> {
        let path = self.directories.control_log();
        let _ = fs::rename(&path, path.with_extension("log.before"));
        // Appending, so that emptying the file does not leave a hole in front of the next line.
        let open = OpenOptions::new().create(true).append(true).open(&path);
        open.map_err(|source| DirectoryError::Refused { verb: "opened", path, source })
    }

    /// How the daemon ended, if this process started it and it did.
    fn death(&mut self) -> Option<DaemonError> {
        let status = self.child.as_mut()?.try_wait().ok()??;
        self.child = None;
        Some(self.died(status.to_string()))
    }

    /// Waits for the end of a daemon that this process started; for ever where it did not.
    pub(crate) async fn ended(&mut self) -> DaemonError {
        let status = match &mut self.child {
            None => std::future::pending().await,
            Some(child) => {
                child.wait().await.map_or_else(|error| error.to_string(), |status| status.to_string())
            }
        };
        self.child = None;
        self.died(status)
    }

    fn died(&self, status: String) -> DaemonError {
        let log = fs::read_to_string(self.directories.control_log()).unwrap_or_default();
        let lines: Vec<&str> = log.lines().rev().take(LAST_WORDS).collect();
        let lines: Vec<&str> = lines.into_iter().rev().collect();
        DaemonError::Died {
            status,
            log: if lines.is_empty() { "empty".to_owned() } else { lines.join(" / ") },
        }
    }

    /// Sets limits on a daemon that has no clients yet, and reads them back.
    pub(crate) async fn limit(&mut self, limits: &MpsLimits) -> Result<(), DaemonError> {
        let MpsLimits { pinned_memory, active_thread_percentage } = limits;
        let memory = format!("set_default_device_pinned_mem_limit {} {}M", self.part, pinned_memory.0);
        self.control.ask(&memory).await?;
        self.control.ask(&format!("set_default_active_thread_percentage {active_thread_percentage}")).await?;
        self.check(limits).await?;
        let note = Note { limits: *limits, users_together: self.users_together };
        Ok(self.directories.write_note(&note)?)
    }

    /// Whether new clients and those that are there have these limits.
    pub(crate) async fn has(&mut self, limits: &MpsLimits) -> Result<bool, DaemonError> {
        let Some(note) = self.directories.note().filter(|note| note.limits == *limits) else {
            return Ok(false);
        };
        self.users_together = note.users_together;
        match self.check(limits).await {
            Ok(()) => Ok(true),
            Err(DaemonError::LimitsNotTaken { .. }) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Compares what the daemon tells with what it was told; its servers too, for a server keeps what it started with,
    /// and one may have been started by a client that was quicker than the limits.
    pub(crate) async fn check(&self, limits: &MpsLimits) -> Result<(), DaemonError> {
        let percentage_tenths = self.control.default_percentage_tenths().await?;
        let memory = self.control.default_memory().await?;
        let is_right = |told: &Option<MemoryTold>| told.is_some_and(|told| told.may_be(limits.pinned_memory));
        let not_taken = |memory| DaemonError::LimitsNotTaken { wanted: *limits, memory, percentage_tenths };
        if !is_right(&memory) || percentage_tenths != limits.active_thread_percentage * 10 {
            return Err(not_taken(memory));
        }
        for server in self.control.servers().await? {
            let memory = self.control.server_memory(server).await?;
            // One that ended between the two questions tells nothing, and harms nobody.
            if !is_right(&memory) && self.control.servers().await?.contains(&server) {
                return Err(not_taken(memory));
            }
        }
        Ok(())
    }

    /// Lets a client look whether the limits hold.
    pub(crate) async fn probe(
        &self,
        probe: &Arc<dyn ClientProbe>,
        limits: &MpsLimits,
    ) -> Result<(), DaemonError> {
        let (probe, pipe, part) = (Arc::clone(probe), self.directories.pipe(), self.part.clone());
        let look = tokio::task::spawn_blocking(move || probe.look(&pipe, &part));
        let seen = look
            .await
            .unwrap_or_else(|error| Err(ProbeError { part: self.part.clone(), source: Box::new(error) }))?;
        Ok(verdict(&self.part, &seen, limits)?)
    }

    /// Ends a daemon that nobody uses. A client that comes in between holds it up: it then answers nothing until that
    /// client has left, and ends.
    pub(crate) async fn quit(&mut self) -> Result<(), DaemonError> {
        match self.control.ask("quit").await {
            Ok(_) | Err(ControlError::Absent { .. }) => {}
            Err(error) => return Err(error.into()),
        }
        if let Some(mut child) = self.child.take() {
            let ended = tokio::time::timeout(self.settings.answer_timeout, child.wait()).await;
            if ended.is_err() {
                self.child = Some(child);
                let seconds = self.settings.answer_timeout.as_secs_f64();
                return Err(ControlError::NoAnswer { command: "quit".to_owned(), seconds }.into());
            }
        } else {
            self.wait_until_gone().await?;
        }
        self.directories.remove_note()?;
        compute_mode::set(&self.settings, &self.part, ComputeMode::Default).await
    }

    async fn wait_until_gone(&self) -> Result<(), DaemonError> {
        let deadline = Instant::now() + self.settings.answer_timeout;
        while self.control.is_there().await? {
            if Instant::now() >= deadline {
                let seconds = self.settings.answer_timeout.as_secs_f64();
                return Err(ControlError::NoAnswer { command: "quit".to_owned(), seconds }.into());
            }
            sleep(KNOCK).await;
        }
        Ok(())
    }

    /// Kills a daemon that this process has started and that never became ready. A client that found it already has no
    /// limits, and must not go on.
    pub(crate) async fn discard(&mut self) {
        if let Some(mut child) = self.child.take() {
            // It may have ended by itself, which is as good.
            let _ = child.kill().await;
        }
    }

    /// Removes what an ended daemon leaves.
    pub(crate) fn remove(&self) -> Result<(), DaemonError> {
        Ok(self.directories.remove()?)
    }

    /// Reads on in the log: who is served, who waits. Never fails, because nothing depends on it but a remark.
    pub(crate) fn read_log(&mut self) -> Users {
        let _ = self.read_on();
        if self.users_together {
            // Put off while the server started, served as soon as it runs.
            self.users.waiting.clear();
        }
        self.users.clone()
    }

    fn read_on(&mut self) -> io::Result<()> {
        let path = self.directories.control_log();
        let mut file = File::open(&path)?;
        let length = file.metadata()?.len();
        if length < self.log_read {
            self.log_read = 0;
        }
        file.seek(SeekFrom::Start(self.log_read))?;
        let mut new = Vec::new();
        file.read_to_end(&mut new)?;
        // The last line may still be being written.
        let whole = new.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
        for line in String::from_utf8_lossy(&new[..whole]).lines() {
            self.users.read(line);
        }
        self.log_read += whole as u64;
        if self.log_read > self.settings.longest_log {
            OpenOptions::new().write(true).open(&path)?.set_len(0)?;
            self.log_read = 0;
        }
        Ok(())
    }
}
