//! Verbs that programs call rather than people.

use crate::failure::{Failure, Outcome};
use std::ffi::OsString;

/// `carve cdi-hook`: the container's state comes on standard input.
pub(crate) fn cdi_hook(words: &[OsString]) -> Outcome {
    let words = words.iter().map(|word| word.to_string_lossy().into_owned());
    let args = carve_cdi::hook::HookArgs::parse(words).map_err(|error| Failure::of(&error))?;
    let report = carve_cdi::hook::run(std::io::stdin().lock(), &args).map_err(|error| Failure::of(&error))?;
    for note in &report.notes {
        eprintln!("{note}");
    }
    Ok(())
}

/// `carve cuda-probe`: one line of JSON on standard output.
pub(crate) fn cuda_probe(words: &[OsString]) -> Outcome {
    let (mut data, mut talk) = (std::io::stdout().lock(), std::io::stderr().lock());
    match carve_cuda::probe_main(words.iter().cloned(), &mut data, &mut talk) {
        Ok(0) => Ok(()),
        Ok(code) => Err(Failure { code, ..Failure::silent() }),
        Err(error) => Err(Failure::of(&error)),
    }
}

/// `carve bench-tenant`: commands come on standard input, one a line, and answers go to standard output.
pub(crate) fn bench_tenant(words: &[OsString]) -> Outcome {
    let spec = words.first().map(|word| word.to_string_lossy().into_owned()).unwrap_or_default();
    match carve_workload::tenant_main(&spec, std::io::stdin().lock(), &mut std::io::stdout().lock()) {
        Ok(0) => Ok(()),
        Ok(code) => Err(Failure { code, ..Failure::silent() }),
        Err(error) => Err(Failure::of(&error)),
    }
}
