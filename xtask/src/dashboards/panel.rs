//! A panel of a dashboard: what it asks, and how the answer looks.

use serde_json::{Value, json};

/// How an answer looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Look {
    Stat,
    Lines,
    Stacked,
    Bars,
    Table,
}

/// A panel.
#[derive(Debug, Clone)]
pub(super) struct Panel {
    title: &'static str,
    says: &'static str,
    look: Look,
    width: u32,
    unit: &'static str,
    most: Option<f64>,
    steps: Vec<(f64, &'static str)>,
    queries: Vec<(String, &'static str)>,
    /// Columns of a table that are shown under another name.
    columns: Vec<(&'static str, &'static str)>,
}

/// Colours that mean something; everything else is coloured by series.
pub(super) const GOOD: &str = "green";
pub(super) const WATCH: &str = "yellow";
pub(super) const BAD: &str = "red";
pub(super) const PLAIN: &str = "text";

impl Panel {
    fn new(look: Look, width: u32, title: &'static str, says: &'static str) -> Self {
        let (queries, columns, steps) = Default::default();
        Panel { title, says, look, width, unit: "short", most: None, steps, queries, columns }
    }

    /// One number.
    pub(super) fn stat(title: &'static str, says: &'static str) -> Self {
        Self::new(Look::Stat, 4, title, says)
    }

    /// Lines over time.
    pub(super) fn lines(title: &'static str, says: &'static str) -> Self {
        Self::new(Look::Lines, 12, title, says)
    }

    /// Parts of a whole over time.
    pub(super) fn stacked(title: &'static str, says: &'static str) -> Self {
        Self::new(Look::Stacked, 12, title, says)
    }

    /// Now, one bar for each.
    pub(super) fn bars(title: &'static str, says: &'static str) -> Self {
        Self::new(Look::Bars, 12, title, says)
    }

    /// Now, one row for each.
    pub(super) fn table(title: &'static str, says: &'static str) -> Self {
        Self::new(Look::Table, 24, title, says)
    }

    /// Asks this; `legend` names the series.
    pub(super) fn asks(mut self, query: impl Into<String>, legend: &'static str) -> Self {
        self.queries.push((query.into(), legend));
        self
    }

    /// Grafana's name of the unit.
    pub(super) fn unit(mut self, unit: &'static str) -> Self {
        self.unit = unit;
        self
    }

    /// Of 24 columns.
    pub(super) fn width(mut self, width: u32) -> Self {
        self.width = width;
        self
    }

    /// The end of the scale.
    pub(super) fn most(mut self, most: f64) -> Self {
        self.most = Some(most);
        self
    }

    /// A colour below the first step, and one from each step on.
    pub(super) fn colours(mut self, below: &'static str, steps: &[(f64, &'static str)]) -> Self {
        self.steps = [(f64::NEG_INFINITY, below)].iter().chain(steps).copied().collect();
        self
    }

    /// Shows a column of a table under another name.
    pub(super) fn column(mut self, name: &'static str, shown: &'static str) -> Self {
        self.columns.push((name, shown));
        self
    }

    /// How high it is.
    pub(super) fn height(&self) -> u32 {
        match self.look {
            Look::Stat => 4,
            _ => 8,
        }
    }

    /// How wide it is.
    pub(super) fn columns_wide(&self) -> u32 {
        self.width
    }

    /// As Grafana has it.
    pub(super) fn json(&self, id: u32, (x, y): (u32, u32)) -> Value {
        let kind = match self.look {
            Look::Stat => "stat",
            Look::Lines | Look::Stacked => "timeseries",
            Look::Bars => "bargauge",
            Look::Table => "table",
        };
        let mut panel = json!({
            "id": id, "type": kind, "title": self.title, "description": self.says,
            "gridPos": {"x": x, "y": y, "w": self.width, "h": self.height()},
            "datasource": datasource(),
            "targets": self.targets(),
            "fieldConfig": {"defaults": self.field(), "overrides": []},
            "options": self.options(),
        });
        if self.look == Look::Table {
            panel["transformations"] = self.transformations();
        }
        panel
    }

    fn targets(&self) -> Vec<Value> {
        let now = matches!(self.look, Look::Stat | Look::Bars | Look::Table);
        let letters = "ABCDEFGHIJ".chars();
        let target = |(letter, (query, legend)): (char, &(String, &str))| {
            let mut target = json!({
                "refId": letter.to_string(), "expr": query, "datasource": datasource(),
                "instant": now, "range": !now,
                "legendFormat": if legend.is_empty() { "__auto" } else { legend },
            });
            if self.look == Look::Table {
                target["format"] = "table".into();
            }
            target
        };
        letters.zip(&self.queries).map(target).collect()
    }

    fn field(&self) -> Value {
        let step = |(from, colour): &(f64, &str)| json!({"color": colour, "value": from.is_finite().then_some(*from)});
        let plain = [(f64::NEG_INFINITY, PLAIN)];
        let steps = if self.steps.is_empty() { &plain[..] } else { &self.steps };
        let by_value = matches!(self.look, Look::Stat | Look::Bars) || !self.steps.is_empty();
        let mut field = json!({
            "unit": self.unit, "min": 0,
            "color": {"mode": if by_value { "thresholds" } else { "palette-classic" }},
            "thresholds": {"mode": "absolute", "steps": steps.iter().map(step).collect::<Vec<_>>()},
            "custom": {},
        });
        if let Some(most) = self.most {
            field["max"] = most.into();
        }
        let stacking =
            json!({"mode": if self.look == Look::Stacked { "normal" } else { "none" }, "group": "A"});
        match self.look {
            Look::Lines | Look::Stacked => {
                field["custom"] = json!({
                    "drawStyle": "line", "lineWidth": 1, "showPoints": "never", "spanNulls": false,
                    "fillOpacity": if self.look == Look::Stacked { 30 } else { 5 }, "stacking": stacking,
                });
            }
            Look::Table => field["custom"] = json!({"filterable": true, "align": "auto"}),
            Look::Stat | Look::Bars => {}
        }
        field
    }

    fn options(&self) -> Value {
        let reduce = json!({"calcs": ["lastNotNull"], "fields": "", "values": false});
        match self.look {
            Look::Stat => json!({
                "reduceOptions": reduce, "colorMode": "value", "graphMode": "none", "textMode": "auto",
                "justifyMode": "auto", "orientation": "auto",
            }),
            Look::Bars => json!({
                "reduceOptions": reduce, "displayMode": "basic", "orientation": "horizontal", "showUnfilled": true,
                "valueMode": "color",
            }),
            Look::Lines | Look::Stacked => json!({
                "legend": {"displayMode": "list", "placement": "bottom", "showLegend": true},
                "tooltip": {"mode": "multi", "sort": "desc"},
            }),
            Look::Table => json!({"showHeader": true, "cellHeight": "sm"}),
        }
    }

    fn transformations(&self) -> Value {
        let renamed: serde_json::Map<String, Value> =
            self.columns.iter().map(|(name, shown)| ((*name).to_owned(), (*shown).into())).collect();
        json!([
            {"id": "merge", "options": {}},
            {"id": "organize", "options": {"excludeByName": {"Time": true}, "indexByName": {}, "renameByName": renamed}},
        ])
    }
}

/// The source that the person chose.
pub(super) fn datasource() -> Value {
    json!({"type": "prometheus", "uid": "${datasource}"})
}
