//! Questions and orders to an MPS daemon, carried by the control program as a person's shell would.

use crate::MpsSettings;
use crate::answers::{self, AnswerError, MemoryTold, ProcessId};
use crate::{DaemonError, PartDirectories};
use carve_slicing::PartId;
use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;
use thiserror::Error;
use tokio::io::AsyncWriteExt;
use tokio::process::Command;
use tokio::time::timeout;

/// Why there is no answer.
#[derive(Debug, Error)]
pub enum ControlError {
    /// No daemon has this pipe directory.
    #[error("no MPS daemon listens in {}", pipe.display())]
    Absent {
        /// The directory.
        pipe: PathBuf,
    },
    /// The control program could not be run.
    #[error("{} could not be run; is the driver installed, and the path right?", program.display())]
    NotRun {
        /// The program.
        program: PathBuf,
        /// What went wrong.
        #[source]
        source: io::Error,
    },
    /// The daemon took the command and said nothing.
    #[error(
        "the MPS daemon did not answer `{command}` within {seconds:.1} s; it hangs, or was told to quit while clients are \
         connected: it is left running for their sake, and ends when they do"
    )]
    NoAnswer {
        /// What was asked.
        command: String,
        /// How long was waited.
        seconds: f64,
    },
    /// The command failed.
    #[error("the MPS daemon refused `{command}`: {output}")]
    Refused {
        /// What was asked.
        command: String,
        /// What came back.
        output: String,
    },
}

/// What the control program says where no daemon listens.
const ABSENT: &str = "Cannot find MPS control daemon process";
const UNKNOWN: &str = "Unknown command";

/// The way to the daemon of one part.
#[derive(Debug, Clone)]
pub struct Control {
    program: PathBuf,
    environment: BTreeMap<String, String>,
    part: PartId,
    pipe: PathBuf,
    timeout: Duration,
}

impl Control {
    /// To the daemon of a part.
    pub fn new(settings: &MpsSettings, part: &PartId, directories: &PartDirectories) -> Self {
        let pipe = directories.pipe();
        let mut environment = settings.environment.clone();
        let mut set = |name: &str, value: String| environment.insert(name.to_owned(), value);
        set("CUDA_VISIBLE_DEVICES", part.to_string());
        set("CUDA_MPS_PIPE_DIRECTORY", pipe.display().to_string());
        set("CUDA_MPS_LOG_DIRECTORY", directories.log().display().to_string());
        Control {
            program: settings.control_program.clone(),
            environment,
            part: part.clone(),
            pipe,
            timeout: settings.answer_timeout,
        }
    }

    /// The environment of the daemon, which is also all that a client needs.
    pub fn environment(&self) -> &BTreeMap<String, String> {
        &self.environment
    }

    /// The control program with nothing in its environment but what MPS needs.
    pub(crate) fn program(&self) -> Command {
        let mut command = Command::new(&self.program);
        command.env_clear().envs(&self.environment);
        command
    }

    /// Sends one command and brings the answer.
    pub async fn ask(&self, command: &str) -> Result<String, ControlError> {
        self.run(command, &[], Some(command)).await
    }

    async fn run(&self, name: &str, arguments: &[&str], input: Option<&str>) -> Result<String, ControlError> {
        let not_run = |source| ControlError::NotRun { program: self.program.clone(), source };
        let mut child = self
            .program()
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .map_err(not_run)?;
        if let (Some(mut stdin), Some(input)) = (child.stdin.take(), input) {
            // A program that ends before it reads has said why, and that is what counts.
            let _ = stdin.write_all(format!("{input}\n").as_bytes()).await;
        }
        let Ok(output) = timeout(self.timeout, child.wait_with_output()).await else {
            let seconds = self.timeout.as_secs_f64();
            return Err(ControlError::NoAnswer { command: name.to_owned(), seconds });
        };
        let output = output.map_err(not_run)?;
        let told = String::from_utf8_lossy(&output.stdout).into_owned();
        if output.status.success() && !told.starts_with(UNKNOWN) {
            return Ok(told);
        }
        let all = format!("{told}{}", String::from_utf8_lossy(&output.stderr));
        if all.contains(ABSENT) {
            return Err(ControlError::Absent { pipe: self.pipe.clone() });
        }
        let output = match all.trim() {
            "" => output.status.to_string(),
            text => text.to_owned(),
        };
        Err(ControlError::Refused { command: name.to_owned(), output })
    }

    /// Whether the control program can serve several users at once.
    pub(crate) async fn can_serve_users_together(&self) -> Result<bool, ControlError> {
        Ok(self.run("--help", &["--help"], None).await?.contains("multiuser-server"))
    }

    /// Whether a daemon listens and answers.
    pub(crate) async fn is_there(&self) -> Result<bool, ControlError> {
        match self.ask("get_server_list").await {
            Ok(_) => Ok(true),
            Err(ControlError::Absent { .. }) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Servers of the daemon: none before the first client, then one.
    pub async fn servers(&self) -> Result<Vec<ProcessId>, DaemonError> {
        let command = "get_server_list";
        Ok(answers::process_ids(command, &self.ask(command).await?)?)
    }

    /// Clients of all its servers.
    pub async fn clients(&self) -> Result<Vec<ProcessId>, DaemonError> {
        let mut clients = Vec::new();
        for server in self.servers().await? {
            let command = format!("get_client_list {server}");
            match answers::process_ids(&command, &self.ask(&command).await?) {
                Ok(found) => clients.extend(found),
                Err(error) if self.servers().await?.contains(&server) => return Err(error.into()),
                // It ended between the two questions, and so did its clients.
                Err(_) => {}
            }
        }
        Ok(clients)
    }

    /// The limit that a client of a new server would have; none where none was set.
    pub async fn default_memory(&self) -> Result<Option<MemoryTold>, DaemonError> {
        let command = format!("get_default_device_pinned_mem_limit {}", self.part);
        Ok(answers::memory(&command, &self.ask(&command).await?)?)
    }

    /// The limit that clients of a running server have.
    pub async fn server_memory(&self, server: ProcessId) -> Result<Option<MemoryTold>, DaemonError> {
        let command = format!("get_device_pinned_mem_limit {server} {}", self.part);
        Ok(answers::memory(&command, &self.ask(&command).await?)?)
    }

    /// Tenths of a percent of threads that a client of a new server would have.
    pub async fn default_percentage_tenths(&self) -> Result<u32, DaemonError> {
        let command = "get_default_active_thread_percentage";
        let answer: Result<u32, AnswerError> = answers::percentage_tenths(command, &self.ask(command).await?);
        Ok(answer?)
    }
}
