//! A strict reader of the OpenMetrics text format, as far as gauges and counters go; what it does not know it refuses.

use std::collections::{BTreeMap, BTreeSet};

/// Labels of a sample.
pub(crate) type Labels = BTreeMap<String, String>;

/// All samples of one scrape.
#[derive(Debug, Default)]
pub(crate) struct Scrape {
    samples: BTreeMap<(String, Labels), f64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Gauge,
    Counter,
    /// One whose name others chose, and which may grow.
    Unknown,
}

impl Scrape {
    /// Reads a scrape; the error names the line.
    pub(crate) fn read(text: &str) -> Result<Self, String> {
        let Some(lines) = text.strip_suffix("# EOF\n") else {
            return Err("it does not end with '# EOF' and a line feed".to_owned());
        };
        if !lines.is_empty() && !lines.ends_with('\n') {
            return Err("the line before '# EOF' does not end".to_owned());
        }
        let mut scrape = Scrape::default();
        let mut families: BTreeSet<String> = BTreeSet::new();
        let mut family: Option<(String, Option<Kind>)> = None;
        for line in lines.lines() {
            scrape.line(line, &mut families, &mut family).map_err(|why| format!("{why}: {line:?}"))?;
        }
        Ok(scrape)
    }

    fn line(
        &mut self,
        line: &str,
        families: &mut BTreeSet<String>,
        family: &mut Option<(String, Option<Kind>)>,
    ) -> Result<(), String> {
        if let Some(comment) = line.strip_prefix('#') {
            let mut words = comment.strip_prefix(' ').ok_or("no space after '#'")?.splitn(3, ' ');
            let (word, name, rest) = (words.next(), words.next(), words.next());
            let name = name.filter(|name| is_name(name)).ok_or("no name")?;
            if family.as_ref().is_none_or(|(open, _)| open != name) {
                if !families.insert(name.to_owned()) {
                    return Err("a family comes twice".to_owned());
                }
                *family = Some((name.to_owned(), None));
            }
            let rest = rest.ok_or("nothing is said")?;
            return match (word, family) {
                (Some("HELP"), _) => Ok(()),
                (Some("TYPE"), Some((_, kind @ None))) => {
                    *kind = Some(match rest {
                        "gauge" => Kind::Gauge,
                        "counter" => Kind::Counter,
                        "unknown" => Kind::Unknown,
                        _ => return Err("an unknown type".to_owned()),
                    });
                    Ok(())
                }
                _ => Err("an unknown or repeated comment".to_owned()),
            };
        }
        let end = line.find(['{', ' ']).ok_or("no value")?;
        let (name, rest) = line.split_at(end);
        let (labels, value) = match rest.strip_prefix('{') {
            Some(rest) => labels(rest)?,
            None => (Labels::new(), rest),
        };
        let value = value.strip_prefix(' ').ok_or("no space before the value")?;
        let value: f64 = value.parse().map_err(|_| "the value is no number")?;
        let Some((family, Some(kind))) = family else { return Err("a sample without a type".to_owned()) };
        let belongs = match kind {
            Kind::Gauge | Kind::Unknown => name == family,
            Kind::Counter => name.strip_suffix("_total") == Some(family) && value >= 0.0,
        };
        if !belongs {
            return Err(format!("not a sample of {family}, a {kind:?}"));
        }
        match self.samples.insert((name.to_owned(), labels), value) {
            None => Ok(()),
            Some(_) => Err("a series comes twice".to_owned()),
        }
    }

    /// The value of a series, if there is one.
    pub(crate) fn value(&self, name: &str, labels: &[(&str, &str)]) -> Option<f64> {
        let labels = labels.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        self.samples.get(&(name.to_owned(), labels)).copied()
    }
}

fn is_name(text: &str) -> bool {
    let letter = |byte: u8| byte.is_ascii_alphabetic() || byte == b'_' || byte == b':';
    let mut bytes = text.bytes();
    bytes.next().is_some_and(letter) && bytes.all(|byte| letter(byte) || byte.is_ascii_digit())
}

/// Reads labels up to the closing brace, and answers what is behind it.
fn labels(mut rest: &str) -> Result<(Labels, &str), String> {
    let mut labels = Labels::new();
    if let Some(rest) = rest.strip_prefix('}') {
        return Ok((labels, rest));
    }
    loop {
        let (name, behind) = rest.split_once("=\"").ok_or("a label without a value")?;
        if !is_name(name) {
            return Err(format!("'{name}' is no name of a label"));
        }
        let mut value = String::new();
        let mut letters = behind.char_indices();
        rest = loop {
            match letters.next() {
                Some((at, '"')) => break &behind[at + 1..],
                Some((_, '\\')) => match letters.next() {
                    Some((_, 'n')) => value.push('\n'),
                    Some((_, letter @ ('"' | '\\'))) => value.push(letter),
                    _ => return Err("an unknown escape".to_owned()),
                },
                Some((_, letter)) => value.push(letter),
                None => return Err("a label's value does not end".to_owned()),
            }
        };
        if labels.insert(name.to_owned(), value).is_some() {
            return Err("a label comes twice".to_owned());
        }
        if let Some(rest) = rest.strip_prefix('}') {
            return Ok((labels, rest));
        }
        rest = rest.strip_prefix(',').ok_or("no comma between labels")?;
    }
}

#[test]
fn the_reader_refuses_what_is_not_openmetrics() {
    let head = "# HELP a_b Something.\n# TYPE a_b counter\n";
    let good = format!("{head}a_b_total{{x=\"1\\\"\\n\",y=\"\"}} 3\n# EOF\n");
    let scrape = Scrape::read(&good).expect("it is good");
    assert_eq!(scrape.value("a_b_total", &[("x", "1\"\n"), ("y", "")]), Some(3.0));
    let bad = [
        "".to_owned(),
        "a 1\n# EOF\n".to_owned(),
        good.replace("# EOF\n", ""),
        good.replace("# EOF\n", "# EOF"),
        good.replace("_total", ""),
        good.replace(" 3", " three"),
        good.replace(" 3", " -3"),
        good.replace("y=", "x="),
        good.replace("\\n", "\\t"),
        good.replace("\",y", "\" y"),
        good.replace("counter", "meter"),
        good.replace("# EOF", "a_b_total{x=\"1\\\"\\n\",y=\"\"} 4\n# EOF"),
        good.replace("# EOF", "# TYPE c gauge\nc 1\n# TYPE a_b counter\n# EOF"),
    ];
    for text in bad {
        assert!(Scrape::read(&text).is_err(), "accepted: {text}");
    }
}
