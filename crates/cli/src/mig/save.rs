//! `carve mig export` and `carve mig checkpoint`: the current layout as a file.

use crate::args::{CheckpointArgs, DataOutput, ExportArgs};
use crate::failure::{Failure, Outcome};
use crate::machine::Chosen;
use crate::print;
use carve_mig_manager::inventory;

/// Prints the layout as a config file.
pub(crate) fn export(chosen: &Chosen, args: &ExportArgs) -> Outcome {
    let gpus = inventory(chosen.host.as_ref()).map_err(|error| chosen.failure(&error))?;
    if let Some(state) = gpus.iter().find(|state| state.trouble.is_some()) {
        let reason = state.trouble.as_ref().map_or(String::new(), |trouble| trouble.failure.to_string());
        return Err(Failure::new(format!("GPU {} does not answer ({reason})", state.gpu.index)));
    }
    let config = carve_mig_manager::export(&args.config_label, &gpus);
    print::out(&match args.output_format {
        DataOutput::Yaml => config.to_yaml(),
        DataOutput::Json => config.to_json(),
    })
}

/// Writes the layout with its slots, so that `restore` brings it back exactly.
pub(crate) fn checkpoint(chosen: &Chosen, args: &CheckpointArgs) -> Outcome {
    let gpus = inventory(chosen.host.as_ref()).map_err(|error| chosen.failure(&error))?;
    let text = carve_mig_manager::checkpoint(&gpus).map_err(|error| Failure::of(&error))?;
    if args.checkpoint_file.as_os_str() == "-" {
        return print::out(&text);
    }
    let file = args.checkpoint_file.display();
    carve_mig_manager::write_whole(&args.checkpoint_file, text.as_bytes())
        .map_err(|error| Failure::new(format!("{file}: can not write the checkpoint: {error}")))?;
    eprintln!("the layout is saved in {file}");
    Ok(())
}
