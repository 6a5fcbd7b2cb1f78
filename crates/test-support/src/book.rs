//! The command blocks of the book: which pages there are, what stands in them to be typed, and where it can be tried.
//!
//! A block begins with three backticks and `console`, and a class says what it needs: none (an empty folder, carve and a shell), `up` (while
//! `carve up` runs), `cluster` (kubectl and helm, in front of a cluster), `not-run` (nobody tries it; the line above says why, in italics).

use std::path::{Path, PathBuf};

/// Where a block can be tried.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Needs {
    /// An empty folder, carve and a shell.
    Nothing,
    /// `carve up`.
    Up,
    /// A cluster.
    Cluster,
    /// Nobody tries it.
    NotRun,
}

/// A command, and what the page says that it prints.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Typed {
    /// As it is typed, lines of a here-document included.
    pub command: String,
    /// Lines that it prints, some left out where `…` stands.
    pub prints: Vec<String>,
}

impl Typed {
    /// Whether the page says that it is refused: what it prints is an error, and nothing behind it makes good for that.
    pub fn is_refused(&self) -> bool {
        let excused = self.command.trim_end().ends_with("|| true");
        !excused && self.prints.iter().any(|line| line.starts_with("error:"))
    }

    /// The first line of the page that was not printed, in order; none where everything was.
    pub fn missing(&self, printed: &str) -> Option<String> {
        let plain = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
        let mut said = printed.lines().map(plain);
        let mut told =
            self.prints.iter().map(|line| plain(line)).filter(|line| !line.is_empty() && line != "…");
        told.find(|line| !said.any(|said| is_like(&said, line)))
    }
}

/// Whether a line is what the page says, where `…` is whatever was left out.
fn is_like(said: &str, told: &str) -> bool {
    let pieces: Vec<&str> = told.split('…').map(str::trim).collect();
    let [first, .., last] = pieces.as_slice() else { return said == told };
    let Some(mut rest) = said.strip_prefix(first) else { return false };
    for piece in &pieces[1..pieces.len() - 1] {
        let Some(at) = rest.find(piece) else { return false };
        rest = &rest[at + piece.len()..];
    }
    rest.ends_with(last)
}

/// A block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Block {
    /// Its page, seen from the book's folder.
    pub page: String,
    /// The line that it begins on.
    pub line: usize,
    /// Where it can be tried.
    pub needs: Needs,
    /// Why nobody tries it.
    pub why_not: Option<String>,
    /// What is typed.
    pub typed: Vec<Typed>,
}

/// Pages that the table of contents names, in its order.
pub fn pages(folder: &Path) -> Result<Vec<String>, String> {
    let contents = folder.join("SUMMARY.md");
    let text =
        std::fs::read_to_string(&contents).map_err(|error| format!("{}: {error}", contents.display()))?;
    let links = text.match_indices("](").filter_map(|(at, _)| text[at + 2..].split(')').next());
    Ok(links.filter(|link| link.ends_with(".md")).map(str::to_owned).collect())
}

/// Every block of a page, or what is wrong with one.
pub fn blocks(page: &str, text: &str) -> Result<Vec<Block>, String> {
    let lines: Vec<&str> = text.lines().collect();
    let (mut found, mut at) = (Vec::new(), 0);
    while at < lines.len() {
        let fence = lines[at].trim_start();
        let Some(info) = fence.strip_prefix("```").map(str::trim).filter(|info| !info.is_empty()) else {
            at += 1;
            continue;
        };
        // A block of a list stands further in.
        let indent = lines[at].len() - fence.len();
        let begin = at + 1;
        let end = (begin..lines.len())
            .find(|line| lines[*line].trim_start().starts_with("```"))
            .ok_or_else(|| format!("{page}:{begin}: this block has no end"))?;
        at = end + 1;
        let mut words = info.split(',').map(str::trim);
        if words.next() != Some("console") {
            continue;
        }
        let needs = match words.collect::<Vec<_>>().as_slice() {
            [] => Needs::Nothing,
            ["up"] => Needs::Up,
            ["cluster"] => Needs::Cluster,
            ["not-run"] => Needs::NotRun,
            other => return Err(format!("{page}:{begin}: nobody knows the class {}", other.join(","))),
        };
        let above = lines[..begin - 1].iter().rev().find(|line| !line.trim().is_empty());
        let why_not = above
            .map(|line| line.trim())
            .filter(|line| needs == Needs::NotRun && line.starts_with('*') && line.ends_with('*'))
            .map(|line| line.trim_matches('*').to_owned());
        if needs == Needs::NotRun && why_not.is_none() {
            return Err(format!(
                "{page}:{begin}: say in italics in the line above why nobody tries this block"
            ));
        }
        let inside: Vec<&str> =
            lines[begin..end].iter().map(|line| line.get(indent..).unwrap_or_default()).collect();
        let typed = typed(&inside);
        if typed.is_empty() {
            return Err(format!("{page}:{begin}: nothing is typed here: commands begin with '$ '"));
        }
        found.push(Block { page: page.to_owned(), line: begin, needs, why_not, typed });
    }
    Ok(found)
}

fn typed(lines: &[&str]) -> Vec<Typed> {
    let mut all: Vec<Typed> = Vec::new();
    let mut until: Option<String> = None;
    let mut goes_on = false;
    for line in lines {
        if let (Some(word), Some(last)) = (&until, all.last_mut()) {
            last.command.push_str(&format!("\n{line}"));
            if line.trim() == word {
                until = None;
            }
            continue;
        }
        if let (true, Some(last)) = (goes_on, all.last_mut()) {
            last.command.push_str(&format!("\n{line}"));
            goes_on = line.ends_with('\\');
            continue;
        }
        match line.strip_prefix("$ ") {
            Some(command) => {
                all.push(Typed { command: command.to_owned(), prints: Vec::new() });
                until = here_document(command);
                goes_on = command.ends_with('\\');
            }
            None => all.last_mut().into_iter().for_each(|last| last.prints.push((*line).to_owned())),
        }
    }
    all
}

/// The word that ends the here-document of a command.
fn here_document(command: &str) -> Option<String> {
    let (_, after) = command.split_once("<<")?;
    let word = after.trim_start_matches('-').split_whitespace().next()?;
    let word = word.trim_matches(|letter| letter == '\'' || letter == '"');
    (!word.is_empty() && !word.starts_with('<')).then(|| word.to_owned())
}

/// Every block of the book that begins in a folder, or everything that is wrong with them.
pub fn book(folder: &Path) -> Result<Vec<Block>, Vec<String>> {
    let pages = pages(folder).map_err(|why| vec![why])?;
    let (mut all, mut wrong) = (Vec::new(), Vec::new());
    for page in pages {
        let path: PathBuf = folder.join(&page);
        match std::fs::read_to_string(&path) {
            Err(error) => wrong.push(format!("SUMMARY.md names {page}: {error}")),
            Ok(text) => match blocks(&page, &text) {
                Ok(blocks) => all.extend(blocks),
                Err(why) => wrong.push(why),
            },
        }
    }
    if wrong.is_empty() { Ok(all) } else { Err(wrong) }
}

#[cfg(test)]
mod tests {
    use super::{Needs, Typed, blocks, is_like};

    const PAGE: &str = "\
text

```console
$ cat > a.yaml <<'EOF'
$ no command
EOF
$ carve validate a.yaml \\
    --strict
one  line
…
the end of a line…
$ carve mig apply
error: refused
```

*It needs a cloud.*

```console,not-run
$ karpenter
```

```yaml
$ not: ours
```

1. first

   ```console,up
   $ carve get pods
   NAME
   ```
";

    #[test]
    fn what_is_typed_and_what_is_printed() {
        let found = blocks("page.md", PAGE).unwrap();
        assert_eq!(found.len(), 3);
        let first = &found[0];
        assert_eq!((first.line, first.needs, first.typed.len()), (3, Needs::Nothing, 3));
        assert_eq!(first.typed[0].command, "cat > a.yaml <<'EOF'\n$ no command\nEOF");
        assert!(first.typed[1].command.ends_with("--strict") && !first.typed[1].is_refused());
        assert!(first.typed[2].is_refused());
        assert_eq!(first.typed[1].missing("zero\none line\nmore\nthe end of a line is here\n"), None);
        assert_eq!(
            first.typed[1].missing("the end of a line\none line\n"),
            Some("the end of a line…".to_owned())
        );
        assert_eq!(found[1].why_not.as_deref(), Some("It needs a cloud."));
        assert_eq!(
            (found[2].needs, found[2].typed[0].prints.as_slice()),
            (Needs::Up, &["NAME".to_owned()][..])
        );
    }

    #[test]
    fn what_is_left_out_may_be_anywhere() {
        let said = |line: &str, told: &str| is_like(line, told);
        assert!(said("5 nodes, 12 GPUs, 3 waiting", "…nodes, … GPUs, …"));
        assert!(said("wrong.yaml:10:7: error: no", "wrong.yaml:10:…: error: no"));
        assert!(!said("wrong.yaml:10:7: error: no", "wrong.yaml:10:…: error: yes"));
        assert!(!said("error: no", "no"));
        assert!(!said("a b", "a b … b"), "nothing is read twice");
        assert!(said("all", "all") && !said("all of it", "all"));
    }

    #[test]
    fn a_refusal_that_is_excused_is_none() {
        let typed =
            |command: &str| Typed { command: command.to_owned(), prints: vec!["error: no".to_owned()] };
        assert!(typed("carve mig apply").is_refused());
        assert!(!typed("carve mig apply || true").is_refused());
    }

    #[test]
    fn what_nobody_could_try_is_found() {
        for (text, why) in [
            ("```console,never\n$ a\n```\n", "nobody knows the class never"),
            ("```console,not-run\n$ a\n```\n", "say in italics"),
            ("```console\na\n```\n", "nothing is typed here"),
            ("```console\n$ a\n", "has no end"),
        ] {
            let refused = blocks("p.md", text).unwrap_err();
            assert!(refused.contains(why), "{refused}");
        }
    }
}
