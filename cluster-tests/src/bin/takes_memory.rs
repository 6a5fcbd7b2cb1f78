//! Takes memory of the first GPU, 64 MiB at a time, until it is refused, and prints what CUDA says there is and what it got, in MiB.
//! With the word `stay` it keeps what it got until it is killed.

use anyhow::{Context, Result};
use carve_cuda::Cuda;

const STEP: usize = 64 << 20;

fn main() -> Result<()> {
    let cuda = Cuda::open(None)?;
    let device = cuda.device(0)?;
    let context = device.context()?;
    let told = context.memory()?;
    let mut taken = Vec::new();
    let refused = loop {
        match context.allocate(STEP) {
            Ok(buffer) => taken.push(buffer),
            Err(refused) => break refused,
        }
    };
    let free = context.memory().context("after it was refused")?.free;
    let got = taken.len() * STEP;
    println!("{} {} {}", told.total.0 >> 20, got >> 20, free.0 >> 20);
    eprintln!("{refused}");
    while std::env::args().any(|word| word == "stay") {
        std::thread::park();
    }
    Ok(())
}
