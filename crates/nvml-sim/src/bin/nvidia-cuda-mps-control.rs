//! Stands in for `nvidia-cuda-mps-control`: a control daemon without a GPU that answers and logs as the real one does.
//!
//! What it answers was observed on driver 580: limits are told back in whole gibibytes, a server keeps the limits it was
//! started with, `quit` blocks while clients are there and takes every later command with it. Commands are recorded in
//! `commands` in the log directory. `sim_attach PID UID` and `sim_detach PID` connect and disconnect a client.
//!
//! A fault is `COMMAND:WHAT` in `CARVE_SIM_MPS_FAULT`, or in a file `fault` in the pipe directory, which is read anew for
//! every command. WHAT is `die`, `hang`, `refuse` (the command is unknown) or `ignore` (it does nothing and says
//! nothing). `start:die` ends the daemon before it listens; `help:refuse` hides multi-user mode.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::Shutdown;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

const FAULT: &str = "CARVE_SIM_MPS_FAULT";
const ABSENT: &str = "Cannot find MPS control daemon process";
/// Process ids of simulated servers, far from those of simulated clients.
const FIRST_SERVER: u32 = 900_001;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let has = |names: &[&str]| arguments.iter().any(|argument| names.contains(&argument.as_str()));
    let pipe = directory("CUDA_MPS_PIPE_DIRECTORY", "/tmp/nvidia-mps");
    let log = directory("CUDA_MPS_LOG_DIRECTORY", "/var/log/nvidia-mps");
    let multi_user = has(&["-M", "-multiuser-server", "--multiuser-server"]);
    let done = if has(&["-h", "--help"]) {
        help(&pipe);
        Ok(())
    } else if has(&["-f", "--forground"]) {
        serve(&pipe, &log, multi_user)
    } else if has(&["-d", "--daemon"]) {
        detach(&pipe, &log, multi_user)
    } else {
        relay(&pipe)
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            println!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn directory(variable: &str, otherwise: &str) -> PathBuf {
    std::env::var_os(variable).filter(|path| !path.is_empty()).unwrap_or(otherwise.into()).into()
}

fn help(pipe: &Path) {
    println!("CUDA MPS Control (simulated)\n\nOPTIONS:\n  -d,--daemon\n  -f,--forground");
    if fault(pipe, "help").is_none() {
        println!("  -M,--multiuser-server    Enable multi-user mode");
    }
}

/// What is to go wrong at a command.
fn fault(pipe: &Path, command: &str) -> Option<String> {
    let file = fs::read_to_string(pipe.join("fault")).ok();
    let wanted = file.or_else(|| std::env::var(FAULT).ok())?;
    let (at, what) = wanted.trim().split_once(':')?;
    (at == command).then(|| what.to_owned())
}

/// Carries commands from stdin to the daemon and its answers to stdout.
fn relay(pipe: &Path) -> io::Result<()> {
    for line in io::stdin().lock().lines() {
        let mut stream = UnixStream::connect(pipe.join("control")).map_err(|_| io::Error::other(ABSENT))?;
        stream.write_all(line?.as_bytes())?;
        stream.shutdown(Shutdown::Write)?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        print!("{answer}");
    }
    Ok(())
}

/// Starts the daemon in the background and returns once it listens.
fn detach(pipe: &Path, log: &Path, multi_user: bool) -> io::Result<()> {
    let output = OpenOptions::new().create(true).append(true).open(log.join("control.log"))?;
    let mut daemon = Command::new(std::env::current_exe()?)
        .arg("-f")
        .args(multi_user.then_some("-M"))
        .stdin(Stdio::null())
        .stdout(output.try_clone()?)
        .stderr(output)
        .spawn()?;
    while UnixStream::connect(pipe.join("control")).is_err() {
        if daemon.try_wait()?.is_some() {
            return Err(io::Error::other("An instance of this daemon is already running"));
        }
        std::thread::yield_now();
    }
    Ok(())
}

/// One server with what it was started with.
struct Server {
    pid: u32,
    user: u32,
    memory: BTreeMap<String, u64>,
    percentage: f64,
    clients: Vec<u32>,
}

/// The control daemon.
struct Daemon {
    multi_user: bool,
    memory: BTreeMap<String, u64>,
    percentage: f64,
    server: Option<Server>,
    started: u32,
    quitting: bool,
}

fn say(text: &str) {
    println!("[2026-01-01 00:00:00.000 Control     1] {text}");
}

fn serve(pipe: &Path, log: &Path, multi_user: bool) -> io::Result<()> {
    let socket = pipe.join("control");
    if UnixStream::connect(&socket).is_ok() {
        return Err(io::Error::other("An instance of this daemon is already running"));
    }
    if fault(pipe, "start").is_some() {
        return Err(io::Error::other("Failed to start: a fault was asked for"));
    }
    // A daemon that was killed leaves its socket behind; the real one starts over it too.
    let _ = fs::remove_file(&socket);
    let listener = UnixListener::bind(&socket)?;
    fs::write(pipe.join("nvidia-cuda-mps-control.pid"), std::process::id().to_string())?;
    let mut environment: Vec<String> =
        std::env::vars().map(|(name, value)| format!("{name}={value}")).collect();
    environment.sort();
    fs::write(log.join("environment"), environment.join("\n"))?;
    let mut record = OpenOptions::new().create(true).append(true).open(log.join("commands"))?;
    writeln!(record, "start{}", if multi_user { " multi-user" } else { "" })?;
    say(&format!("Starting control daemon using socket {}", socket.display()));
    let mut daemon = Daemon {
        multi_user,
        memory: BTreeMap::new(),
        percentage: 100.0,
        server: None,
        started: 0,
        quitting: false,
    };
    // Connections that are never answered stay open here.
    let mut hung = Vec::new();
    loop {
        let (stream, _) = listener.accept()?;
        if !answer(&mut daemon, stream, pipe, &mut record, &mut hung)? {
            // Of the real one's files the log pipe and the pid file go; the sockets stay.
            fs::remove_file(pipe.join("nvidia-cuda-mps-control.pid"))?;
            say("Exit with status 0");
            return Ok(());
        }
    }
}

/// Answers one connection; false when the daemon is to end.
fn answer(
    daemon: &mut Daemon,
    stream: UnixStream,
    pipe: &Path,
    record: &mut File,
    hung: &mut Vec<UnixStream>,
) -> io::Result<bool> {
    let mut line = String::new();
    // Whoever asks may be killed before the question is whole, or before the answer comes. The real one outlives that.
    let _ = BufReader::new(&stream).read_line(&mut line);
    let words: Vec<&str> = line.split_whitespace().collect();
    let Some(name) = words.first() else { return Ok(true) };
    let simulated = name.starts_with("sim_");
    if !simulated {
        writeln!(record, "{}", words.join(" "))?;
        say(&format!("Cmd:{}", words.join(" ")));
    }
    let mut stream = stream;
    match fault(pipe, name).as_deref() {
        Some("die") => std::process::exit(1),
        Some("hang") => {
            hung.push(stream);
            return Ok(true);
        }
        Some("refuse") => {
            let _ = writeln!(stream, "Unknown command \"{name}\"");
            return Ok(true);
        }
        Some(_) => return Ok(true),
        None => {}
    }
    if *name == "quit" {
        daemon.quitting = true;
    }
    let busy = daemon.server.as_ref().is_some_and(|server| !server.clients.is_empty());
    if daemon.quitting && busy && !simulated {
        hung.push(stream);
        return Ok(true);
    }
    if daemon.quitting && !busy {
        return Ok(false);
    }
    let text = daemon.obey(&words);
    fs::write(pipe.join("carve-sim-limits"), daemon.limits_of_a_client())?;
    let _ = stream.write_all(text.as_bytes());
    Ok(!(daemon.quitting && daemon.server.as_ref().is_none_or(|server| server.clients.is_empty())))
}

impl Daemon {
    /// What the simulated CUDA library holds its clients to: limits set after a server was started do nothing.
    fn limits_of_a_client(&self) -> String {
        let (memory, percentage) = match &self.server {
            Some(server) => (&server.memory, server.percentage),
            None => (&self.memory, self.percentage),
        };
        let memory =
            memory.values().next().map(|bytes| format!("pinned_mib={}\n", bytes >> 20)).unwrap_or_default();
        format!("{memory}percentage={}\n", percentage as u32)
    }

    fn obey(&mut self, words: &[&str]) -> String {
        let line = |text: String| format!("{text}\n");
        match words {
            ["get_server_list"] => {
                self.server.as_ref().map(|server| line(server.pid.to_string())).unwrap_or_default()
            }
            ["get_client_list", pid] => {
                let server = self.server(pid);
                server
                    .map(|server| server.clients.iter().map(|pid| line(pid.to_string())).collect())
                    .unwrap_or_default()
            }
            ["get_default_active_thread_percentage"] => line(percent(self.percentage)),
            ["set_default_active_thread_percentage", value] => {
                if let Some(value) = value.parse().ok().filter(|value| *value > 0.0 && *value <= 100.0) {
                    self.percentage = value;
                }
                line(percent(self.percentage))
            }
            ["get_active_thread_percentage", pid] => {
                self.server(pid).map(|server| line(percent(server.percentage))).unwrap_or_default()
            }
            ["set_default_device_pinned_mem_limit", device, value] => {
                match amount(value).filter(|_| identifies(device)) {
                    Some(bytes) => {
                        self.memory.insert((*device).to_owned(), bytes);
                    }
                    None => say(&format!("Invalid device identifier format: {device}")),
                }
                String::new()
            }
            ["get_default_device_pinned_mem_limit", device] => told(self.memory.get(*device)),
            ["get_device_pinned_mem_limit", pid, device] => {
                told(self.server(pid).and_then(|server| server.memory.get(*device)))
            }
            ["quit"] => String::new(),
            ["sim_attach", pid, user] => {
                if let (Ok(pid), Ok(user)) = (pid.parse(), user.parse()) {
                    self.attach(pid, user);
                }
                String::new()
            }
            ["sim_detach", pid] => {
                if let (Some(server), Ok(pid)) = (&mut self.server, pid.parse::<u32>()) {
                    server.clients.retain(|client| *client != pid);
                }
                String::new()
            }
            _ => line(format!("Unknown command \"{}\"", words.join(" "))),
        }
    }

    fn server(&self, pid: &str) -> Option<&Server> {
        self.server.as_ref().filter(|server| server.pid.to_string() == pid)
    }

    fn attach(&mut self, client: u32, user: u32) {
        if let Some(server) = &mut self.server {
            if server.user == user || self.multi_user {
                say(&format!("NEW CLIENT {client} from user {user}: Server already exists"));
                server.clients.push(client);
                return;
            }
            if !server.clients.is_empty() {
                say(&format!(
                    "NEW CLIENT {client} from user {user}: Server is not ready, push client to pending list"
                ));
                say(&format!("Server {} has 2 active worker threads. Server will not shutdown.", server.pid));
                return;
            }
            say(&format!("Server {} exited with status 0", server.pid));
        }
        say(&format!(
            "NEW CLIENT {client} from user {user}: Server is not ready, push client to pending list"
        ));
        let pid = FIRST_SERVER + self.started;
        self.started += 1;
        say(&format!("Starting new server {pid} for user {user}"));
        say(&format!("NEW SERVER {pid}: Ready"));
        let (memory, percentage) = (self.memory.clone(), self.percentage);
        self.server = Some(Server { pid, user, memory, percentage, clients: vec![client] });
    }
}

fn percent(value: f64) -> String {
    format!("{value:.1}")
}

fn identifies(device: &str) -> bool {
    device.parse::<u32>().is_ok() || device.starts_with("GPU-") || device.starts_with("MIG-")
}

fn amount(value: &str) -> Option<u64> {
    let (number, shift) = match value.strip_suffix('G') {
        Some(number) => (number, 30),
        None => (value.strip_suffix('M')?, 20),
    };
    Some(number.parse::<u64>().ok()? << shift)
}

/// As the real one tells limits: whole gibibytes if there is one, else whole mebibytes; nothing where none is set.
fn told(bytes: Option<&u64>) -> String {
    match bytes {
        None | Some(0) => String::new(),
        Some(bytes) if *bytes >= 1 << 30 => format!("{}G\n", bytes >> 30),
        Some(bytes) => format!("{}M\n", bytes >> 20),
    }
}
