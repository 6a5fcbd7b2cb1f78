//! The one shipped executable.

use std::process::ExitCode;

fn main() -> ExitCode {
    carve_cli::main()
}
