//! `carve get`: objects as tables, or as they are.

use super::InNamespace;
use crate::args::MachineArgs;
use crate::asked_of::{AskedOf, wait};
use crate::failure::{Failure, Outcome, UNREADABLE};
use crate::print;
use carve_object_verbs::{
    Found, Row, Table, VerbError, Wanted, find_named, get as get_object, list, table, watch_table,
};
use clap::{Args, ValueEnum};
use futures_util::{StreamExt, pin_mut};
use kube::Client;
use serde_json::{Value, json};

#[derive(Debug, Args)]
pub(crate) struct GetArgs {
    /// Kind of objects, such as pods, deployments, jobs, nodes, events, slicepolicies, or KIND/NAME; several with commas between them
    #[arg(value_name = "KIND")]
    kind: String,
    /// Only these
    #[arg(value_name = "NAME")]
    names: Vec<String>,
    /// Those of all namespaces
    #[arg(short = 'A', long)]
    all_namespaces: bool,
    /// How to print
    #[arg(short, long, value_enum, default_value_t = GetOutput::Table)]
    output: GetOutput,
    /// Go on, and print what changes
    #[arg(short, long)]
    watch: bool,
    /// Only those with these labels
    #[arg(short = 'l', long, value_name = "LABELS")]
    selector: Option<String>,
    /// Only those with these fields, such as spec.nodeName=p4d-1
    #[arg(long, value_name = "FIELDS")]
    field_selector: Option<String>,
    /// No line with the heads of columns
    #[arg(long)]
    no_headers: bool,
    #[command(flatten)]
    place: InNamespace,
    #[command(flatten)]
    asked: AskedOf,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum GetOutput {
    /// A table
    Table,
    /// A table with everything that fits
    Wide,
    /// JSON
    Json,
    /// YAML
    Yaml,
    /// Kinds and names
    Name,
}

/// Gets, and prints.
pub(crate) fn get(machine: &MachineArgs, args: &GetArgs) -> Outcome {
    wait(async {
        let client = args.asked.client(machine).await?;
        let kinds: Vec<&str> = args.kind.split(',').filter(|kind| !kind.is_empty()).collect();
        if kinds.is_empty() || (kinds.len() > 1 && args.watch) {
            let words = "which kind of objects? write one, as in carve get pods; one alone can be watched";
            return Err(Failure { code: UNREADABLE, ..Failure::new(words) });
        }
        let as_tables = matches!(args.output, GetOutput::Table | GetOutput::Wide);
        if args.watch && !as_tables {
            let words = "-w prints tables; leave -o away, or write -o wide";
            return Err(Failure { code: UNREADABLE, ..Failure::new(words) });
        }
        let mut gathered = Gathered::default();
        for (number, kind) in kinds.iter().enumerate() {
            let (kind, name) =
                kind.split_once('/').map_or((*kind, None), |(kind, name)| (kind, Some(name.to_owned())));
            let found = find_named(&client, kind).await?;
            let names: Vec<String> = name.into_iter().chain(args.names.iter().cloned()).collect();
            let namespace = (!args.all_namespaces && found.namespaced).then(|| args.place.of(&client));
            if !as_tables {
                gathered.add(&client, args, &found, &names, namespace).await?;
                continue;
            }
            if number > 0 {
                print::out("\n")?;
            }
            tables(&client, args, &found, &names, namespace).await?;
        }
        if as_tables { Ok(()) } else { gathered.print(args.output) }
    })
}

async fn tables(
    client: &Client,
    args: &GetArgs,
    found: &Found,
    names: &[String],
    namespace: Option<String>,
) -> Outcome {
    let wanted = |name: Option<String>| Wanted {
        namespace: namespace.clone(),
        name,
        labels: args.selector.clone(),
        fields: args.field_selector.clone(),
    };
    let mut all = Table::default();
    if names.is_empty() {
        all = table(client, found, &wanted(None)).await?;
    }
    for name in names {
        let one = table(client, found, &wanted(Some(name.clone()))).await?;
        (all.columns, all.version) = (one.columns, one.version);
        all.rows.extend(one.rows);
    }
    if all.rows.is_empty() && !args.watch {
        let place =
            namespace.as_ref().map(|namespace| format!(" in {namespace} namespace")).unwrap_or_default();
        eprintln!("No resources found{place}.");
        return Ok(());
    }
    let wide = args.output == GetOutput::Wide;
    let mut shown = Shown::new(&all, wide, args.all_namespaces && found.namespaced);
    print::out(&shown.rows(&all.rows, !args.no_headers && !all.rows.is_empty()))?;
    if !args.watch {
        return Ok(());
    }
    let version = all.version.clone();
    let name = match names {
        [name] => Some(name.clone()),
        [] => None,
        _ => {
            return Err(Failure {
                code: UNREADABLE,
                ..Failure::new("all of a kind can be watched, or one of them")
            });
        }
    };
    follow(client, found, &wanted(name), &version, &mut shown).await
}

/// Prints rows as they change, until somebody stops it.
async fn follow(
    client: &Client,
    found: &Found,
    wanted: &Wanted,
    version: &str,
    shown: &mut Shown,
) -> Outcome {
    let mut version = version.to_owned();
    loop {
        let changes = watch_table(client, found, wanted, &version).await.map_err(Failure::from)?;
        pin_mut!(changes);
        while let Some(change) = changes.next().await {
            match change {
                Ok((word, table)) if word != "BOOKMARK" => {
                    if shown.columns.is_empty() {
                        *shown = Shown::new(&table, shown.wide, shown.namespaces);
                        print::out(&shown.rows(&[], true))?;
                    }
                    print::out(&shown.rows(&table.rows, false))?;
                }
                Ok(_) => {}
                Err(VerbError { code: 410, .. }) => break,
                Err(error) => return Err(error.into()),
            }
        }
        // The other side ends watches now and then; what is there by then comes next.
        version = table(client, found, wanted).await.map(|table| table.version).map_err(Failure::from)?;
    }
}

/// A table on its way to the terminal: columns stay as wide as they were.
struct Shown {
    columns: Vec<(usize, String)>,
    widths: Vec<usize>,
    wide: bool,
    namespaces: bool,
}

impl Shown {
    fn new(table: &Table, wide: bool, namespaces: bool) -> Self {
        let columns: Vec<(usize, String)> = table
            .columns
            .iter()
            .enumerate()
            .filter(|(_, column)| wide || !column.wide)
            .map(|(place, column)| (place, column.name.to_uppercase()))
            .collect();
        let mut shown = Shown { columns, widths: Vec::new(), wide, namespaces };
        shown.widths = shown.cells(None).iter().map(|cell| cell.chars().count()).collect();
        for row in &table.rows {
            let cells = shown.cells(Some(row));
            for (width, cell) in shown.widths.iter_mut().zip(cells) {
                *width = (*width).max(cell.chars().count());
            }
        }
        shown
    }

    /// The cells of a row, or the heads.
    fn cells(&self, row: Option<&Row>) -> Vec<String> {
        let first = match row {
            None => "NAMESPACE".to_owned(),
            Some(row) => row.namespace.clone(),
        };
        let rest = self.columns.iter().map(|(place, head)| match row {
            None => head.clone(),
            Some(row) => row.cells.get(*place).cloned().unwrap_or_default(),
        });
        self.namespaces.then_some(first).into_iter().chain(rest).collect()
    }

    fn rows(&self, rows: &[Row], heads: bool) -> String {
        let mut text = String::new();
        for row in heads.then_some(None).into_iter().chain(rows.iter().map(Some)) {
            let cells = self.cells(row).into_iter().zip(&self.widths);
            let line: Vec<String> = cells.map(|(cell, width)| format!("{cell:<width$}")).collect();
            text.push_str(line.join("   ").trim_end());
            text.push('\n');
        }
        text
    }
}

/// Objects of every kind that was asked for, to be printed as one document.
#[derive(Default)]
struct Gathered {
    /// With what each is called where only names are printed.
    objects: Vec<(String, Value)>,
    /// Whether a list was asked for, or more than one object.
    several: bool,
}

impl Gathered {
    async fn add(
        &mut self,
        client: &Client,
        args: &GetArgs,
        found: &Found,
        names: &[String],
        namespace: Option<String>,
    ) -> Outcome {
        let mut objects = Vec::new();
        if names.is_empty() {
            objects = list(client, found, namespace.as_deref(), args.selector.as_deref()).await?;
        }
        let place = args.place.of(client);
        for name in names {
            objects.push(get_object(client, found, &place, name).await?);
        }
        self.several |= names.len() != 1 || !self.objects.is_empty();
        let title = |object: &Value| {
            format!("{}/{}", found.title(), object["metadata"]["name"].as_str().unwrap_or_default())
        };
        self.objects.extend(objects.into_iter().map(|object| (title(&object), object)));
        Ok(())
    }

    fn print(self, output: GetOutput) -> Outcome {
        if output == GetOutput::Name {
            return print::out(
                &self.objects.iter().map(|(title, _)| format!("{title}\n")).collect::<String>(),
            );
        }
        let value = self.document();
        if output == GetOutput::Yaml { print::yaml(&value) } else { print::json(&value) }
    }

    /// One object as it is; any other number as kubectl has them, in a List.
    fn document(self) -> Value {
        let mut objects: Vec<Value> = self.objects.into_iter().map(|(_, object)| object).collect();
        match (self.several, objects.pop()) {
            (false, Some(object)) => object,
            (_, last) => {
                objects.extend(last);
                json!({"apiVersion": "v1", "kind": "List", "items": objects})
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Gathered;
    use serde_json::{Value, json};

    fn gathered(names: &[&str], several: bool) -> Value {
        let object = |name: &&str| (format!("pod/{name}"), json!({"metadata": {"name": name}}));
        Gathered { objects: names.iter().map(object).collect(), several }.document()
    }

    #[test]
    fn one_that_is_named_stands_alone_and_everything_else_is_one_list() {
        assert_eq!(gathered(&["a"], false)["metadata"]["name"], "a");
        for names in [&[][..], &["a"], &["a", "b"]] {
            let list = gathered(names, true);
            assert_eq!(list["kind"], "List");
            let items: Vec<&str> = list["items"]
                .as_array()
                .unwrap()
                .iter()
                .filter_map(|one| one["metadata"]["name"].as_str())
                .collect();
            assert_eq!(items, names);
        }
    }
}
