//! The dashboard's API, asked with everything that its own OpenAPI document allows and forbids, in front of the real program.

use crate::run::{cargo, is_ci, run};
use crate::{root, tools};
use anyhow::{Context, Result, bail};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Pinned, so that a test run does not change by itself.
const SCHEMATHESIS: &str = "4.32.5";
/// Cases for each question: enough to meet every rule of the document, few enough to wait for.
const CASES: &str = "30";
/// What must hold of every answer. That everything the document allows is taken is not among it: a name that nobody has is allowed, too.
const CHECKS: &str = "not_a_server_error,status_code_conformance,content_type_conformance,response_headers_conformance,\
                      response_schema_conformance,negative_data_rejection,unsupported_method";

/// How long it may take to start.
const PATIENCE: Duration = Duration::from_secs(60);

/// A `carve up` with nothing on it, which is gone with this.
struct Up {
    child: Child,
    url: String,
}

impl Up {
    fn start(program: &Path, said: &Path) -> Result<Self> {
        let mut command = Command::new(program);
        command
            .args(["up", "--empty", "--forget", "--allow-changes", "--listen", "127.0.0.1:0"])
            .args(["--fleet", "p4d.24xlarge=1,g5.2xlarge=1"])
            .stdout(Stdio::null())
            .stderr(File::create(said)?);
        let child = command.spawn().with_context(|| format!("can not start {}", program.display()))?;
        let mut up = Up { child, url: String::new() };
        let start = Instant::now();
        while up.lives()? && start.elapsed() < PATIENCE {
            let text = fs::read_to_string(said)?;
            let page = text.lines().find(|line| line.trim_start().starts_with("page"));
            if let Some(url) = page.and_then(|line| line.split_whitespace().last()) {
                up.url = url.to_owned();
                return Ok(up);
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        bail!("carve up did not say where its page is: {}", fs::read_to_string(said)?)
    }

    /// Whether nothing has ended it.
    fn lives(&mut self) -> Result<bool> {
        Ok(self.child.try_wait()?.is_none())
    }
}

impl Drop for Up {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Asks carve as it is now everything.
pub(crate) fn api() -> Result<()> {
    run(cargo().args(["build", "--quiet", "--workspace", "--bin", "carve"]))?;
    api_of_built()
}

/// The same with carve as it was built last.
pub(crate) fn api_of_built() -> Result<()> {
    let Some(tool) = tool()? else {
        if is_ci() {
            bail!(
                "the API is tried by Schemathesis, which needs python3 with venv and pip, and CI must not skip"
            );
        }
        eprintln!("SKIPPED: the API is tried by Schemathesis; install python3 with venv and pip");
        return Ok(());
    };
    let folder = root().join("target/api");
    fs::create_dir_all(&folder)?;
    let said = folder.join("said");
    let mut up = Up::start(&root().join("target/debug/carve"), &said)?;
    let mut command = Command::new(&tool);
    command
        .args(["run", &format!("{}/api/v1/openapi.json", up.url)])
        .args([
            "--checks",
            CHECKS,
            "--max-examples",
            CASES,
            "--seed",
            "1",
            "--phases",
            "examples,coverage,fuzzing",
        ])
        // A stream does not end.
        .args([
            "--exclude-path",
            "/api/v1/stream",
            "--request-timeout",
            "20",
            "--generation-database",
            "none",
        ])
        .args(["--suppress-health-check", "all", "--warnings", "off", "--no-color"])
        .current_dir(&folder);
    let result = run(&mut command);
    if !up.lives()? {
        bail!("carve up has ended while it was asked: {}", fs::read_to_string(said)?);
    }
    let words = fs::read_to_string(said)?;
    if let Some(line) = words.lines().find(|line| line.contains("panicked")) {
        bail!("carve up has panicked: {line}");
    }
    result
}

/// Schemathesis, installed into the cache if it is not there; nothing without Python.
fn tool() -> Result<Option<PathBuf>> {
    let packages = [format!("schemathesis=={SCHEMATHESIS}")];
    let programs = tools::from_python(&format!("schemathesis-{SCHEMATHESIS}"), &packages)?;
    Ok(programs.map(|folder| folder.join("schemathesis")))
}
