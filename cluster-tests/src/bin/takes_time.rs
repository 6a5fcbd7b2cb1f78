//! Keeps the first GPU busy, with pieces of work of a millisecond, for so many milliseconds, and prints how many were done and in how
//! many microseconds: `takes_time MILLISECONDS [FOLDER NAME NUMBER]`.
//!
//! With a folder it leaves its name there and begins when that many names are there, so that those who met had the same time. The work is
//! a kernel of the simulated driver.
#![allow(unsafe_code, reason = "only whoever launches a kernel knows its parameters")]

use anyhow::{Context, Result, bail, ensure};
use carve_cuda::Cuda;
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

const PTX: &str = ".version 6.0\n.visible .entry spin(.param .u64 ns) { ret; }";
/// Nanoseconds of a piece, where `TAKES_PIECE` does not say how many microseconds it is to take.
const PIECE: u64 = 1_000_000;
/// Pieces that are started before it waits for them.
const AT_ONCE: u32 = 4;
/// How long to wait for the others.
const PATIENCE: Duration = Duration::from_secs(60);

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let [milliseconds, others @ ..] = &arguments[..] else {
        bail!("usage: takes_time MILLISECONDS [FOLDER NAME NUMBER]")
    };
    let length = Duration::from_millis(milliseconds.parse().context("milliseconds")?);
    let piece = match std::env::var("TAKES_PIECE") {
        Ok(microseconds) => microseconds.parse::<u64>().context("TAKES_PIECE")? * 1_000,
        Err(_) => PIECE,
    };
    let cuda = Cuda::open(None)?;
    let device = cuda.device(0)?;
    let context = device.context()?;
    let module = context.load_ptx(PTX)?;
    let spin = module.function("spin")?;
    match others {
        [] => {}
        [folder, name, number] => meet(Path::new(folder), name, number.parse().context("a number")?)?,
        _ => bail!("a folder, a name and how many there will be"),
    }
    let begin = Instant::now();
    let mut pieces = 0;
    while begin.elapsed() < length {
        for _ in 0..AT_ONCE {
            let mut nanoseconds = piece;
            // SAFETY: the kernel has one parameter, a number of eight bytes, and no buffer.
            unsafe { spin.launch(1, 32, &mut [(&raw mut nanoseconds).cast()])? };
        }
        pieces += AT_ONCE;
        context.synchronise()?;
    }
    println!("{pieces} {}", begin.elapsed().as_micros());
    Ok(())
}

/// Waits until all have come.
fn meet(folder: &Path, name: &str, number: usize) -> Result<()> {
    fs::create_dir_all(folder).and_then(|()| fs::write(folder.join(name), "")).context("leave a name")?;
    let begin = Instant::now();
    while fs::read_dir(folder).context("see who is there")?.count() < number {
        ensure!(begin.elapsed() < PATIENCE, "the others do not come");
        std::thread::sleep(Duration::from_millis(1));
    }
    Ok(())
}
