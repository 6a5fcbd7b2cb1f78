//! Samples of Prometheus: what exporters print, and what its HTTP API answers to queries.
//!
//! Exporters write milliseconds behind a value, OpenMetrics writes seconds; a whole number below 10^11 is taken for seconds. Values that are
//! no numbers, and DCGM's marks for "no value" (beyond 2^62), are left out.

use serde_json::Value;
use std::collections::BTreeMap;
use thiserror::Error;

/// A series and what was seen of it.
#[derive(Debug, Clone, PartialEq)]
pub struct Series {
    /// Name of the metric.
    pub name: String,
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// Values in the order of the document.
    pub points: Vec<Point>,
}

/// One value.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Point {
    /// Milliseconds since 1970, where the document says when.
    pub millis: Option<i64>,
    /// The value.
    pub value: f64,
}

/// Why a document is not understood.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{}{what}", .line.map(|line| format!("line {line}: ")).unwrap_or_default())]
pub struct SamplesError {
    /// The line, from 1, where there are lines.
    pub line: Option<usize>,
    /// What is wrong.
    pub what: String,
}

/// What DCGM writes instead of a value is beyond this.
const NO_VALUE: f64 = 4.6e18;

/// Series by name and labels, in that order.
type Found = BTreeMap<(String, BTreeMap<String, String>), Vec<Point>>;

/// Reads what an exporter prints, or one or several answers of the HTTP API as JSON.
pub fn parse(text: &str) -> Result<Vec<Series>, SamplesError> {
    let mut found = Found::new();
    match text.trim_start().chars().next() {
        Some('{' | '[') => {
            let answers = serde_json::Deserializer::from_str(text).into_iter::<Value>();
            for answer in answers {
                let wrong = |error: serde_json::Error| SamplesError {
                    line: Some(error.line()),
                    what: format!("this is not JSON: {error}"),
                };
                answer_of(&answer.map_err(wrong)?, None, &mut found)?;
            }
        }
        _ => {
            for (index, line) in text.lines().enumerate() {
                let wrong = |what: String| SamplesError { line: Some(index + 1), what };
                exposed(line, &mut found).map_err(wrong)?;
            }
        }
    }
    Ok(series(found))
}

/// Reads the answer of the HTTP API to a query that is about this metric and loses its name, such as `max_over_time(…)`.
pub fn parse_answer(text: &str, name: &str) -> Result<Vec<Series>, SamplesError> {
    let mut found = Found::new();
    let answer: Value = serde_json::from_str(text)
        .map_err(|error| SamplesError { line: None, what: format!("this is not JSON: {error}") })?;
    answer_of(&answer, Some(name), &mut found)?;
    Ok(series(found))
}

fn series(found: Found) -> Vec<Series> {
    found.into_iter().map(|((name, labels), points)| Series { name, labels, points }).collect()
}

fn keep(found: &mut Found, name: String, labels: BTreeMap<String, String>, point: Point) {
    if point.value.is_finite() && point.value.abs() < NO_VALUE {
        found.entry((name, labels)).or_default().push(point);
    }
}

/// One line: `NAME{LABEL="VALUE",…} VALUE [TIME]`.
fn exposed(line: &str, found: &mut Found) -> Result<(), String> {
    let line = line.trim();
    if line.is_empty() || line.starts_with('#') {
        return Ok(());
    }
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == ':';
    let end = line.find(|c| !is_name(c)).unwrap_or(line.len());
    let (name, rest) = line.split_at(end);
    if name.is_empty() {
        return Err(format!("'{}' does not begin with the name of a metric", short(line)));
    }
    let (labels, rest) = match rest.trim_start().strip_prefix('{') {
        Some(inner) => labels(inner)?,
        None => (BTreeMap::new(), rest),
    };
    // An exemplar may follow; it says nothing about the series.
    let values = rest.split(" # ").next().unwrap_or(rest);
    let mut words = values.split_whitespace();
    let value = words.next().ok_or_else(|| format!("{name} has no value"))?;
    let value = number(value).ok_or_else(|| format!("'{}' of {name} is no number", short(value)))?;
    let millis = match words.next() {
        None => None,
        Some(time) => Some(time_of(time).ok_or_else(|| format!("'{}' of {name} is no time", short(time)))?),
    };
    if let Some(more) = words.next() {
        return Err(format!("'{}' stands behind value and time of {name}", short(more)));
    }
    keep(found, name.to_owned(), labels, Point { millis, value });
    Ok(())
}

fn short(text: &str) -> String {
    text.chars().take(40).collect()
}

fn number(text: &str) -> Option<f64> {
    match text {
        "NaN" => Some(f64::NAN),
        "+Inf" | "Inf" => Some(f64::INFINITY),
        "-Inf" => Some(f64::NEG_INFINITY),
        _ => text.parse().ok(),
    }
}

fn time_of(text: &str) -> Option<i64> {
    let number: f64 = text.parse().ok()?;
    let millis = if text.contains('.') || number.abs() < 1e11 { number * 1000.0 } else { number };
    (millis.is_finite() && millis.abs() < 1e17).then_some(millis.round() as i64)
}

/// Labels up to the closing brace, and what follows it.
fn labels(text: &str) -> Result<(BTreeMap<String, String>, &str), String> {
    let mut labels = BTreeMap::new();
    let mut rest = text;
    loop {
        rest = rest.trim_start().trim_start_matches(',').trim_start();
        if let Some(after) = rest.strip_prefix('}') {
            return Ok((labels, after));
        }
        let (name, after) =
            rest.split_once('=').ok_or("labels do not end: a closing brace is missing".to_owned())?;
        let quoted = after.trim_start().strip_prefix('"');
        let quoted = quoted.ok_or_else(|| format!("the value of label '{}' is not quoted", short(name)))?;
        let (value, after) = quoted_text(quoted)
            .ok_or_else(|| format!("the value of label '{}' does not end", short(name)))?;
        labels.insert(name.trim().to_owned(), value);
        rest = after;
    }
}

/// Text up to the closing quote, and what follows it.
fn quoted_text(text: &str) -> Option<(String, &str)> {
    let mut value = String::new();
    let mut characters = text.char_indices();
    while let Some((index, character)) = characters.next() {
        match character {
            '"' => return Some((value, &text[index + 1..])),
            '\\' => match characters.next()?.1 {
                'n' => value.push('\n'),
                other => value.push(other),
            },
            other => value.push(other),
        }
    }
    None
}

/// An answer of the HTTP API, or a list of them.
fn answer_of(answer: &Value, about: Option<&str>, found: &mut Found) -> Result<(), SamplesError> {
    let wrong = |what: String| SamplesError { line: None, what };
    if let Some(list) = answer.as_array() {
        return list.iter().try_for_each(|one| answer_of(one, about, found));
    }
    if answer["status"] == "error" {
        let why = answer["error"].as_str().unwrap_or("it does not say why");
        return Err(wrong(format!("Prometheus refused the query: {why}")));
    }
    let result = answer["data"]["result"].as_array();
    let kind = answer["data"]["resultType"].as_str().unwrap_or("nothing");
    let Some(result) = result.filter(|_| matches!(kind, "matrix" | "vector")) else {
        return Err(wrong(format!(
            "expected the answer to a query with a matrix or a vector in data.result, found {kind}"
        )));
    };
    for (index, series) in result.iter().enumerate() {
        let at = |what: &str| wrong(format!("data.result[{index}]: {what}"));
        let metric = series["metric"].as_object().ok_or_else(|| at("'metric' is missing"))?;
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let mut labels: BTreeMap<String, String> =
            metric.iter().map(|(name, value)| (name.clone(), text(value))).collect();
        let name = labels.remove("__name__").or(about.map(str::to_owned)).unwrap_or_default();
        if name.is_empty() {
            return Err(at("it has no name: query the metric itself, such as DCGM_FI_DEV_GPU_UTIL[7d]"));
        }
        let values = match (series["values"].as_array(), &series["value"]) {
            (Some(values), _) => values.clone(),
            (None, value @ Value::Array(_)) => vec![value.clone()],
            _ => return Err(at("neither 'values' nor 'value' is there")),
        };
        for value in &values {
            let point = point(value).ok_or_else(|| at("a value is not [SECONDS, \"NUMBER\"]"))?;
            keep(found, name.clone(), labels.clone(), point);
        }
    }
    Ok(())
}

fn point(pair: &Value) -> Option<Point> {
    let seconds = pair.get(0)?.as_f64()?;
    let value = number(pair.get(1)?.as_str()?)?;
    Some(Point { millis: Some((seconds * 1000.0).round() as i64), value })
}

#[cfg(test)]
mod tests {
    use super::{parse, parse_answer};
    use proptest::prelude::*;

    #[test]
    fn what_exporters_print() {
        let text = "# HELP x y\n# TYPE x gauge\nx{gpu=\"0\",modelName=\"Tesla \\\"T4\\\"\"} 25 1700000000000\n\
                    x{gpu=\"0\",modelName=\"Tesla \\\"T4\\\"\"} 26 1700000030.5\ny 3\nz NaN\nm 9223372036854775794\n# EOF\n";
        let series = parse(text).unwrap();
        assert_eq!(series.iter().map(|one| one.name.as_str()).collect::<Vec<_>>(), ["x", "y"]);
        assert_eq!(series[0].labels["modelName"], "Tesla \"T4\"");
        let points: Vec<_> = series[0].points.iter().map(|point| (point.millis, point.value)).collect();
        assert_eq!(points, [(Some(1_700_000_000_000), 25.0), (Some(1_700_000_030_500), 26.0)]);
        assert_eq!(series[1].points[0].millis, None);
    }

    #[test]
    fn what_the_api_answers() {
        let text = r#"{"status":"success","data":{"resultType":"matrix","result":[
            {"metric":{"__name__":"x","pod":"a"},"values":[[1700000000,"1"],[1700000060.25,"NaN"]]}]}}
            {"status":"success","data":{"resultType":"vector","result":[{"metric":{"__name__":"y"},"value":[1,"2"]}]}}"#;
        let series = parse(text).unwrap();
        assert_eq!((series.len(), series[0].points.len(), series[1].points[0].value), (2, 1, 2.0));
        let nameless =
            r#"{"data":{"resultType":"matrix","result":[{"metric":{"pod":"a"},"values":[[1,"2"]]}]}}"#;
        assert_eq!(parse_answer(nameless, "z").unwrap()[0].name, "z");
    }

    #[test]
    fn what_is_wrong_is_said_with_its_line() {
        for (text, said) in [
            ("x 1\nx{a=\"b\" 2\n", "line 2: labels do not end"),
            ("x{a=b} 2\n", "line 1: the value of label 'a' is not quoted"),
            ("x{a=\"b} 2\n", "line 1: the value of label 'a' does not end"),
            ("x\n", "line 1: x has no value"),
            ("x much\n", "line 1: 'much' of x is no number"),
            ("x 1 later\n", "line 1: 'later' of x is no time"),
            ("x 1 2 3\n", "line 1: '3' stands behind value and time of x"),
            ("<html>\n", "line 1: '<html>' does not begin with the name of a metric"),
            (r#"{"status":"error","error":"too long"}"#, "Prometheus refused the query: too long"),
            (r#"{"kind":"List"}"#, "found nothing"),
            (
                r#"{"data":{"resultType":"vector","result":[{"metric":{},"value":[1,"2"]}]}}"#,
                "it has no name",
            ),
            ("{", "this is not JSON"),
        ] {
            let error = parse(text).unwrap_err().to_string();
            assert!(error.contains(said), "{error}");
        }
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic(text in "[ -~\\n]{0,200}") {
            let _ = parse(&text);
        }
    }
}
