//! Makes the Grafana dashboards in monitoring/grafana, so that what they have in common is written once.

mod cost;
mod fleet;
mod node;
mod panel;
mod tenant;
#[cfg(test)]
mod tests;

use crate::root;
use anyhow::{Context, Result};
use panel::Panel;
use serde_json::{Value, json};
use std::path::PathBuf;

/// A dashboard: variables that people choose, and rows of panels.
struct Dashboard {
    /// File name without its ending; also how others link to it.
    name: &'static str,
    title: &'static str,
    says: &'static str,
    variables: Vec<Variable>,
    rows: Vec<(&'static str, Vec<Panel>)>,
}

/// A variable whose values are those of a label.
struct Variable {
    name: &'static str,
    label: &'static str,
    /// Series and label.
    values: &'static str,
    /// Whether several may be chosen, or all.
    many: bool,
}

/// Columns of Grafana's grid.
const WIDE: u32 = 24;

impl Dashboard {
    fn json(&self) -> Value {
        let mut panels = Vec::new();
        let (mut id, mut y) = (0, 0);
        let mut next = || {
            id += 1;
            id
        };
        for (title, row) in &self.rows {
            panels.push(json!({
                "id": next(), "type": "row", "title": title, "collapsed": false, "panels": [],
                "gridPos": {"x": 0, "y": y, "w": WIDE, "h": 1},
            }));
            y += 1;
            let (mut x, mut high) = (0, 0);
            for panel in row {
                if x + panel.columns_wide() > WIDE {
                    (x, y, high) = (0, y + high, 0);
                }
                panels.push(panel.json(next(), (x, y)));
                x += panel.columns_wide();
                high = high.max(panel.height());
            }
            y += high;
        }
        json!({
            "uid": format!("carve-{}", self.name), "title": self.title, "description": self.says,
            "tags": ["carve", "gpu"], "schemaVersion": 39, "version": 1, "editable": true, "graphTooltip": 1,
            "timezone": "browser", "refresh": "30s", "time": {"from": "now-6h", "to": "now"},
            "annotations": {"list": []}, "timepicker": {}, "fiscalYearStartMonth": 0,
            "links": [{"title": "carve", "type": "dashboards", "tags": ["carve"], "asDropdown": true, "includeVars": false,
                "keepTime": true, "icon": "external link", "targetBlank": false, "tooltip": "", "url": ""}],
            "templating": {"list": self.templating()},
            "panels": panels,
        })
    }

    fn templating(&self) -> Vec<Value> {
        let source = json!({
            "name": "datasource", "label": "Prometheus", "type": "datasource", "query": "prometheus", "regex": "",
            "hide": 0, "includeAll": false, "multi": false, "refresh": 1, "options": [], "current": {},
        });
        let variable = |one: &Variable| {
            let query = format!("label_values({})", one.values);
            json!({
                "name": one.name, "label": one.label, "type": "query", "datasource": panel::datasource(),
                "definition": query, "query": {"query": query, "refId": "values"}, "regex": "", "refresh": 2, "sort": 1,
                "hide": 0, "multi": one.many, "includeAll": one.many, "allValue": if one.many { json!(".*") } else { Value::Null },
                "options": [], "current": if one.many { json!({"text": "All", "value": "$__all"}) } else { json!({}) },
            })
        };
        [source].into_iter().chain(self.variables.iter().map(variable)).collect()
    }

    fn file(&self) -> (PathBuf, String) {
        let path = root().join("monitoring/grafana").join(format!("{}.json", self.name));
        (path, format!("{:#}\n", self.json()))
    }
}

fn all() -> [Dashboard; 4] {
    [fleet::dashboard(), node::dashboard(), tenant::dashboard(), cost::dashboard()]
}

/// Writes the files anew.
pub(crate) fn write() -> Result<()> {
    for (path, text) in all().iter().map(Dashboard::file) {
        std::fs::write(&path, text).with_context(|| path.display().to_string())?;
    }
    Ok(())
}
