//! Tables of series, made of what a program answers to whoever scrapes it.

use super::cell;
use std::collections::BTreeMap;

/// A series as the page tells it.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
struct Told {
    help: String,
    kind: String,
    labels: Vec<String>,
}

/// A table of the families of an answer that are chosen by name. Labels that all of them have are said once, above.
pub fn series_table(answer: &str, chosen: impl Fn(&str) -> bool) -> String {
    let all: Vec<(String, Told)> = families(answer).into_iter().filter(|(name, _)| chosen(name)).collect();
    let common: Vec<&String> = match all.split_first() {
        Some(((_, first), rest)) if !rest.is_empty() => {
            let everywhere = |label: &&String| rest.iter().all(|(_, told)| told.labels.contains(label));
            first.labels.iter().filter(everywhere).collect()
        }
        _ => Vec::new(),
    };
    let code =
        |labels: &[&String]| labels.iter().map(|one| format!("`{one}`")).collect::<Vec<_>>().join(", ");
    let mut text = String::new();
    if !common.is_empty() {
        text.push_str(&format!("Labels of all: {}.\n\n", code(&common)));
    }
    text.push_str("| series | |\n|---|---|\n");
    for (name, told) in &all {
        let total = if told.kind == "counter" && !name.ends_with("_total") { "_total" } else { "" };
        let own: Vec<&String> = told.labels.iter().filter(|label| !common.contains(label)).collect();
        let labels = if own.is_empty() { String::new() } else { format!(" · {}", code(&own)) };
        text.push_str(&format!("| `{name}{total}` | {}<br>*{}*{labels} |\n", cell(&told.help), told.kind));
    }
    text
}

fn families(answer: &str) -> BTreeMap<String, Told> {
    let mut all: BTreeMap<String, Told> = BTreeMap::new();
    let mut last = String::new();
    for line in answer.lines() {
        let word = |begin: &str| line.strip_prefix(begin).and_then(|rest| rest.split_once(' '));
        if let Some((name, help)) = word("# HELP ") {
            all.entry(name.to_owned()).or_default().help = help.trim_end_matches('.').to_owned();
        } else if let Some((name, kind)) = word("# TYPE ") {
            kind.clone_into(&mut all.entry(name.to_owned()).or_default().kind);
            name.clone_into(&mut last);
        } else if !line.starts_with('#')
            && let Some(told) = all.get_mut(&last)
        {
            for label in labels(line) {
                // A bound of a histogram is no label that anybody asks for.
                if label != "le" && !told.labels.contains(&label) {
                    told.labels.push(label);
                }
            }
        }
    }
    all
}

/// Names of labels in a sample; values may hold any sign.
fn labels(sample: &str) -> Vec<String> {
    let mut rest = sample.split_once('{').map(|(_, rest)| rest).unwrap_or_default();
    let mut found = Vec::new();
    while let Some((name, after)) = rest.split_once("=\"") {
        found.push(name.trim_start_matches(',').to_owned());
        let mut escaped = false;
        let end = after.find(|sign| {
            let ends = sign == '"' && !escaped;
            escaped = sign == '\\' && !escaped;
            ends
        });
        rest = end.map(|end| &after[end + 1..]).unwrap_or_default();
        if rest.starts_with('}') {
            break;
        }
    }
    found
}

/// Sentences in a source that stand for the help of a series and are in no answer: what nothing made the program tell.
pub fn untold<'a>(source: &'a str, answer: &str) -> Vec<&'a str> {
    let code = source.split("#[cfg(test)]\nmod tests").next().unwrap_or_default();
    let is_sentence =
        |text: &&str| text.starts_with(|sign: char| sign.is_ascii_uppercase()) && text.contains(' ');
    let code = code.lines().filter(|line| !line.trim_start().starts_with("//"));
    let sentences = code.flat_map(|line| line.split('"').skip(1).step_by(2)).filter(is_sentence);
    sentences.filter(|sentence| !answer.contains(&format!(" {sentence}"))).collect()
}

#[cfg(test)]
mod tests {
    use super::{series_table, untold};

    const ANSWER: &str = "# HELP a_b Something.\n# TYPE a_b counter\na_b_total{x=\"1,y=\\\"2\\\"\",z=\"\"} 1\n\
        a_b_total{x=\"2\",w=\"}\"} 1\n# HELP a_c Other things.\n# TYPE a_c histogram\na_c_bucket{le=\"1\"} 2\n\
        # HELP b Not this.\n# TYPE b gauge\nb 1\n# EOF\n";

    #[test]
    fn names_kinds_labels_and_help_are_told() {
        let rows = "| `a_b_total` | Something<br>*counter* · `x`, `z`, `w` |\n| `a_c` | Other things<br>*histogram* |\n";
        let head = "| series | |\n|---|---|\n";
        assert_eq!(series_table(ANSWER, |name| name.starts_with("a_")), format!("{head}{rows}"));
        let alike =
            "# HELP a One.\n# TYPE a gauge\na{x=\"\",y=\"\"} 1\n# HELP b Two.\n# TYPE b gauge\nb{x=\"\"} 1\n";
        let rows = "| `a` | One<br>*gauge* · `y` |\n| `b` | Two<br>*gauge* |\n";
        assert_eq!(series_table(alike, |_| true), format!("Labels of all: `x`.\n\n{head}{rows}"));
    }

    #[test]
    fn what_the_source_would_tell_and_the_answer_does_not_is_found() {
        let source = "// \"Not code\"\nf(\"a_c\", \"Other things\");\ng(\"d\", \"Never seen\");\n#[cfg(test)]\nmod tests {\n\"In tests\"";
        assert_eq!(untold(source, ANSWER), ["Never seen"]);
    }
}
