//! The child's side of a probe: arguments in, one line of JSON out.

use super::{Answer, DeviceChoice, Line, ProbeError, ProbeVerb, look, vector_add};
use crate::open::Cuda;
use std::ffi::OsString;
use std::io::{self, Write};
use std::path::PathBuf;

/// What was typed.
#[derive(Debug, PartialEq, Eq)]
struct Typed {
    verb: ProbeVerb,
    device: DeviceChoice,
    library: Option<PathBuf>,
}

/// Does what a probe is asked for on its command line: `look|vector-add [--device NUMBER|UUID] [--library PATH]`
/// (the program's name and the words that led here are left out).
///
/// One line of JSON goes to `data`, a sentence about a failure to `talk`. The answer is the exit code: 0 if all went
/// well, 1 if the probe failed, 2 if the arguments make no sense.
pub fn probe_main(
    arguments: impl IntoIterator<Item = OsString>,
    data: &mut dyn Write,
    talk: &mut dyn Write,
) -> io::Result<u8> {
    let outcome = read(arguments.into_iter()).and_then(|typed| run(&typed));
    let (line, code) = match outcome {
        Ok(answer) => (Line::Answer(answer), 0),
        Err(error) => {
            writeln!(talk, "{error}")?;
            let code = if matches!(error, ProbeError::Usage(_)) { 2 } else { 1 };
            (Line::Failed { reason: error.reason().to_owned(), message: error.to_string() }, code)
        }
    };
    let mut text = serde_json::to_string(&line)?;
    text.push('\n');
    data.write_all(text.as_bytes())?;
    data.flush()?;
    Ok(code)
}

fn read(mut arguments: impl Iterator<Item = OsString>) -> Result<Typed, ProbeError> {
    let usage = |problem: &str| ProbeError::Usage(problem.to_owned());
    let text = |argument: OsString| argument.into_string().map_err(|_| usage("an argument is not UTF-8"));
    let verb = text(arguments.next().ok_or_else(|| usage("nothing to do was named"))?)?;
    let mut typed = Typed {
        verb: verb.parse().map_err(ProbeError::Usage)?,
        device: DeviceChoice::default(),
        library: None,
    };
    while let Some(flag) = arguments.next() {
        let flag = text(flag)?;
        let value = arguments.next();
        match (flag.as_str(), value) {
            ("--device", Some(value)) => typed.device = text(value)?.parse().map_err(ProbeError::Usage)?,
            ("--library", Some(value)) => typed.library = Some(PathBuf::from(value)),
            ("--device" | "--library", None) => return Err(usage(&format!("{flag} needs a value"))),
            _ => return Err(usage(&format!("'{flag}' is not known"))),
        }
    }
    Ok(typed)
}

fn run(typed: &Typed) -> Result<Answer, ProbeError> {
    let cuda = Cuda::open(typed.library.as_deref())?;
    let device = typed.device.find(&cuda)?;
    match typed.verb {
        ProbeVerb::Look => look(device).map(Answer::Look),
        ProbeVerb::VectorAdd => vector_add(device).map(Answer::VectorAdd),
    }
}

#[cfg(test)]
mod tests {
    use super::{Line, Typed, probe_main, read};
    use crate::{DeviceChoice, ProbeError, ProbeVerb};
    use std::ffi::OsString;
    use std::path::PathBuf;

    fn typed(line: &str) -> Result<Typed, ProbeError> {
        read(line.split_whitespace().map(OsString::from))
    }

    #[test]
    fn arguments_mean_what_they_say() {
        let plain = typed("look").unwrap();
        assert_eq!(plain, Typed { verb: ProbeVerb::Look, device: DeviceChoice::Ordinal(0), library: None });
        let full = typed("vector-add --library /x/libcuda.so --device 3").unwrap();
        assert_eq!(full.verb, ProbeVerb::VectorAdd);
        assert_eq!(full.device, DeviceChoice::Ordinal(3));
        assert_eq!(full.library, Some(PathBuf::from("/x/libcuda.so")));
        let uuid = "MIG-8932f937-d72c-4106-c12f-20bd9faed9f6";
        let by_uuid = typed(&format!("look --device {uuid}")).unwrap();
        assert_eq!(by_uuid.device, DeviceChoice::Uuid(uuid.parse().unwrap()));
        for (wrong, hint) in [
            ("", "nothing to do"),
            ("dance", "expected look or vector-add"),
            ("look --device", "--device needs a value"),
            ("look --device GPU-1", "'GPU-1' is no UUID"),
            ("look --device 99999999999", "too large"),
            ("look 1", "'1' is not known"),
        ] {
            let error = typed(wrong).unwrap_err();
            assert!(error.to_string().contains(hint), "{wrong}: {error}");
            assert_eq!(error.reason(), "usage");
        }
    }

    #[test]
    fn a_failure_is_one_line_of_data_and_one_of_talk() {
        let (mut data, mut talk) = (Vec::new(), Vec::new());
        let absent = ["look", "--library", "/nowhere/libcuda.so.1"].map(OsString::from);
        assert_eq!(probe_main(absent, &mut data, &mut talk).unwrap(), 1);
        let (data, talk) = (String::from_utf8(data).unwrap(), String::from_utf8(talk).unwrap());
        assert_eq!((data.lines().count(), talk.lines().count()), (1, 1));
        let Line::Failed { reason, message } = serde_json::from_str(&data).unwrap() else { panic!("{data}") };
        assert_eq!(reason, "library-not-found");
        assert!(message.contains("/nowhere/libcuda.so.1"), "{message}");
        assert_eq!(message, talk.trim_end());
        assert_eq!(probe_main([], &mut Vec::new(), &mut Vec::new()).unwrap(), 2);
    }
}
