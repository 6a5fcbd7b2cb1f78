//! `carve dra`: what dynamic resource allocation needs beside the agent.

use crate::args::{ClassesArgs, DraVerb};
use crate::failure::{Failure, Outcome, UNREADABLE};
use crate::print;

/// Answers a verb of `carve dra`.
pub(crate) fn dra(verb: &DraVerb) -> Outcome {
    match verb {
        DraVerb::Classes(args) => classes(args),
    }
}

/// Prints the classes, one document each.
fn classes(args: &ClassesArgs) -> Outcome {
    let classes = carve_dra::classes(&args.driver_name, &args.mig)
        .map_err(|error| Failure { code: UNREADABLE, ..Failure::of(&error) })?;
    for (number, class) in classes.iter().enumerate() {
        if number > 0 {
            print::out("---\n")?;
        }
        print::yaml(&class.manifest())?;
    }
    Ok(())
}
