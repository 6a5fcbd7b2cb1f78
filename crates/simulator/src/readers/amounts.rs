//! Amounts as people and Kubernetes write them: `500m`, `16Gi`, `0.25`, `25%`, `2h`.

use crate::csv::MOST;
use carve_gpu_model::{Geometry, Mebibytes, ProfileName};
use carve_placement::{CpuMilli, GpuMilli, WHOLE};

/// Which way an amount is rounded that is no whole number of what is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Round {
    /// What is asked for: rather too much.
    Up,
    /// What is there: rather too little.
    Down,
}

/// A billionth of the unit, as the smallest step.
const NANO: u128 = 1_000_000_000;

/// Digits with at most one point between them, in billionths, and what follows them.
fn decimal(text: &str) -> Option<(u128, &str)> {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (digits, suffix) = text.split_at(end);
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    if (whole.is_empty() && fraction.is_empty()) || whole.len() > 19 || fraction.contains('.') {
        return None;
    }
    let whole: u128 = if whole.is_empty() { 0 } else { whole.parse().ok()? };
    let mut billionths: u128 = 0;
    for place in 0..9 {
        let digit = fraction.as_bytes().get(place).map_or(0, |digit| digit - b'0');
        billionths = billionths * 10 + u128::from(digit);
    }
    // What is smaller than a billionth still counts as something.
    let rest = fraction.bytes().skip(9).any(|digit| digit != b'0');
    Some((whole * NANO + billionths + u128::from(rest), suffix))
}

/// A quantity of Kubernetes, in billionths.
pub(crate) fn quantity(text: &str) -> Option<u128> {
    let (number, suffix) = decimal(text)?;
    let times = |factor: u128| number.checked_mul(factor);
    match suffix {
        "" => Some(number),
        "n" => Some(number.div_ceil(NANO)),
        "u" => Some(number.div_ceil(1_000_000)),
        "m" => Some(number.div_ceil(1000)),
        "k" => times(1000),
        "M" => times(1_000_000),
        "G" => times(NANO),
        "T" => times(NANO * 1000),
        "P" => times(NANO * 1_000_000),
        "E" => times(NANO * NANO),
        "Ki" => times(1 << 10),
        "Mi" => times(1 << 20),
        "Gi" => times(1 << 30),
        "Ti" => times(1 << 40),
        "Pi" => times(1 << 50),
        "Ei" => times(1 << 60),
        _ => {
            let exponent: i32 = suffix.strip_prefix(['e', 'E'])?.parse().ok()?;
            match exponent {
                0..=18 => times(10_u128.pow(exponent.unsigned_abs())),
                -9..0 => Some(number.div_ceil(10_u128.pow(exponent.unsigned_abs()))),
                _ => None,
            }
        }
    }
}

fn divided(billionths: u128, by: u128, round: Round) -> Option<u64> {
    let divided = match round {
        Round::Up => billionths.div_ceil(by),
        Round::Down => billionths / by,
    };
    u64::try_from(divided).ok().filter(|amount| *amount <= MOST)
}

/// CPU cores: `4`, `0.5`, `500m`. Nothing is none.
pub(crate) fn cpu(text: &str, round: Round) -> Result<CpuMilli, String> {
    if text.is_empty() {
        return Ok(CpuMilli(0));
    }
    let milli = quantity(text).and_then(|cores| divided(cores, NANO / 1000, round));
    milli.map(CpuMilli).ok_or_else(|| format!("cpu is {text:?}; write cores, such as 4, 0.5 or 500m"))
}

/// Memory: `16Gi`, `512Mi`, `16G`. Nothing is none; a number without a unit would be bytes and is refused unless allowed.
pub(crate) fn memory(name: &str, text: &str, bytes: bool, round: Round) -> Result<Mebibytes, String> {
    if text.is_empty() || text == "0" {
        return Ok(Mebibytes(0));
    }
    if !bytes && text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.') {
        return Err(format!("{name} is {text:?} without a unit; write {text}Gi or {text}Mi"));
    }
    let mebibytes = quantity(text).and_then(|amount| divided(amount, NANO << 20, round));
    mebibytes
        .map(Mebibytes)
        .ok_or_else(|| format!("{name} is {text:?}; write an amount with its unit, such as 16Gi or 512Mi"))
}

/// A part of a GPU: `0.25`, `25%`, `250m`.
pub(crate) fn part(text: &str) -> Result<GpuMilli, String> {
    let milli = match text.strip_suffix('%') {
        Some(percent) => decimal(percent)
            .filter(|(_, rest)| rest.is_empty())
            .map(|(percent, _)| percent.div_ceil(NANO / 10)),
        None => match decimal(text) {
            Some((gpus, "")) => Some(gpus.div_ceil(NANO / 1000)),
            Some((milli, "m")) => Some(milli.div_ceil(NANO)),
            _ => None,
        },
    };
    let milli = milli.filter(|milli| (1..=u128::from(WHOLE.0)).contains(milli));
    let milli = milli.ok_or_else(|| {
        format!("gpu is {text:?}; write the part of one GPU, such as 0.25, 25% or 250m; several whole ones are 'gpus'")
    })?;
    Ok(GpuMilli(milli as u16))
}

/// More MIG devices than one node has.
pub(crate) const MOST_DEVICES: u64 = 128;

/// MIG devices: `1g.5gb`, or several with a plus sign between them, each with its number: `1g.5gb=2+3g.20gb`. Commas divide columns.
pub(crate) fn mig(text: &str) -> Result<Geometry, String> {
    let mut devices = Geometry::default();
    // A plus sign also begins the attributes of a profile, which begin with a letter.
    let mut parts: Vec<String> = Vec::new();
    for part in text.split('+') {
        match parts.last_mut().filter(|_| part.starts_with(|c: char| c.is_ascii_alphabetic())) {
            Some(before) => *before = format!("{before}+{part}"),
            None => parts.push(part.to_owned()),
        }
    }
    for part in parts {
        let (name, number) = part.trim().split_once('=').unwrap_or((part.trim(), "1"));
        let number = count("mig", number.trim(), MOST_DEVICES)?;
        devices.add(profile(name.trim())?, number as u32);
    }
    if devices.instances() == 0 || devices.instances() > MOST_DEVICES {
        return Err(format!("mig is {text:?}; ask for 1 to {MOST_DEVICES} MIG devices"));
    }
    Ok(devices)
}

/// A MIG profile whose instance has all the compute of its part of the GPU.
pub(crate) fn profile(text: &str) -> Result<ProfileName, String> {
    let wrong = |why: String| format!("mig is {text:?}: {why}; write a profile, such as 1g.5gb or 1g.5gb=2");
    let profile: ProfileName = text.parse().map_err(|error| wrong(format!("{error}")))?;
    if !profile.is_whole() {
        return Err(wrong(
            "only whole instances can be simulated, without a number of compute slices".to_owned(),
        ));
    }
    Ok(profile)
}

/// Seconds: `90`, `90s`, `15m`, `2h`, `1d`.
pub(crate) fn seconds(name: &str, text: &str) -> Result<u64, String> {
    let (digits, factor) = match text.as_bytes().last() {
        Some(b's') => (&text[..text.len() - 1], 1),
        Some(b'm') => (&text[..text.len() - 1], 60),
        Some(b'h') => (&text[..text.len() - 1], 3600),
        Some(b'd') => (&text[..text.len() - 1], 86_400),
        _ => (text, 1),
    };
    let digits_only = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    let seconds =
        digits.parse::<u64>().ok().filter(|_| digits_only).and_then(|number| number.checked_mul(factor));
    seconds
        .filter(|seconds| *seconds <= MOST)
        .ok_or_else(|| format!("{name} is {text:?}; write seconds, or 90s, 15m, 2h, 1d"))
}

/// A count of things.
pub(crate) fn count(name: &str, text: &str, most: u64) -> Result<u64, String> {
    let digits_only = text.bytes().all(|byte| byte.is_ascii_digit());
    match text.parse::<u64>().ok().filter(|_| digits_only) {
        Some(number) if number <= most => Ok(number),
        Some(number) => Err(format!("{name} is {number}; more than {most} can not be meant")),
        None => Err(format!("{name} is {text:?}; it must be a whole number that is not negative")),
    }
}

#[cfg(test)]
mod tests {
    use super::{Round, count, cpu, memory, mig, part, quantity, seconds};

    #[test]
    fn mig_devices_are_profiles_with_numbers() {
        let read = |text| mig(text).map(|devices| devices.to_string());
        assert_eq!(read("1g.5gb").as_deref(), Ok("1× 1g.5gb"));
        assert_eq!(read("1g.5gb=2+3g.20gb").as_deref(), Ok("2× 1g.5gb, 1× 3g.20gb"));
        assert_eq!(read("1g.10gb+me").as_deref(), Ok("1× 1g.10gb+me"));
        assert_eq!(read("1g.10gb+me=1+1g.10gb=3").as_deref(), Ok("3× 1g.10gb, 1× 1g.10gb+me"));
        for wrong in
            ["", "1g", "1g.5gb=0", "1g.5gb=129", "1g.5gb=-1", "1g.5gb=x", "1c.2g.10gb", "1g.5gb+", "gpu"]
        {
            assert!(read(wrong).unwrap_err().contains("mig is"), "{wrong}: {:?}", read(wrong));
        }
    }

    #[test]
    fn amounts_are_read_as_people_mean_them() {
        let milli = |text| cpu(text, Round::Up).map(|cpu| cpu.0);
        assert_eq!(milli("4"), Ok(4000));
        assert_eq!(milli("0.5"), Ok(500));
        assert_eq!(milli("500m"), Ok(500));
        assert_eq!(milli("1u"), Ok(1), "rounded up for those who ask");
        assert_eq!(cpu("1u", Round::Down).map(|cpu| cpu.0), Ok(0), "and down for those who have");
        let mib = |text| memory("memory", text, false, Round::Up).map(|memory| memory.0);
        assert_eq!(mib("16Gi"), Ok(16384));
        assert_eq!(mib("1G"), Ok(954));
        assert_eq!(mib("1.5Mi"), Ok(2));
        assert_eq!(memory("memory", "32925060Ki", true, Round::Down).map(|memory| memory.0), Ok(32153));
        assert_eq!(memory("memory", "129e6", true, Round::Down).map(|memory| memory.0), Ok(123));
        for text in ["0.25", "25%", "250m", ".25", "25.0%"] {
            assert_eq!(part(text).map(|part| part.0), Ok(250), "{text}");
        }
        assert_eq!(part("1").map(|part| part.0), Ok(1000));
        assert_eq!(part("33.34%").map(|part| part.0), Ok(334));
        assert_eq!(seconds("arrive", "2h"), Ok(7200));
        assert_eq!(seconds("arrive", "90"), Ok(90));
        assert_eq!(count("gpus", "8", 16), Ok(8));
        assert_eq!(quantity("1E"), Some(10_u128.pow(27)));
    }

    #[test]
    fn nonsense_is_refused_with_the_text_in_the_message() {
        let long = "9".repeat(50);
        for text in
            ["-1", "NaN", "nan", "inf", "+4", "1e400", "4 cores", "1..2", ".", "m", "½", "٤", "0x10", &long]
        {
            for refused in [
                cpu(text, Round::Up).map(|_| ()),
                memory("memory", text, true, Round::Up).map(|_| ()),
                part(text).map(|_| ()),
                seconds("arrive", text).map(|_| ()),
                count("gpus", text, 16).map(|_| ()),
            ] {
                let message = refused.expect_err(text);
                assert!(
                    message.contains(text) || message.contains(&format!("{text:?}")),
                    "{text}: {message}"
                );
            }
        }
        assert!(memory("memory", "16", false, Round::Up).unwrap_err().contains("16Gi"));
        assert!(part("0").is_err() && part("2").is_err() && part("101%").is_err());
        assert!(count("gpus", "17", 16).unwrap_err().contains("more than 16"));
        assert!(seconds("arrive", "").is_err() && count("gpus", "", 16).is_err());
    }
}
