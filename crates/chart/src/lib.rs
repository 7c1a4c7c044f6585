//! What does `helm template` print for our chart, without Helm?
//!
//! The chart in `deploy/chart/tidepool` is the only description of an installation. It is embedded in
//! the program, and its templates are interpreted here:
//!
//! ```text
//! values.yaml <- values files <- --set ──┐
//!                                        v
//! templates/*.yaml ──[template]──> text ──> documents, in the order in which they are created
//! ```
//!
//! | module | question |
//! |---|---|
//! | [`embedded`] | what is in the chart? |
//! | [`values`] | which values count, and which are not known? |
//! | [`template`] | what do the templates say for these values? |
//! | [`manifest`] | which objects are these, and in which order are they created? |
//!
//! Only the part of Go's templates that the chart is written in is understood; everything else is an
//! error with file and line. A test compares the objects with those of Helm itself.

pub mod embedded;
pub mod manifest;
pub mod template;
pub mod values;

use std::collections::BTreeMap;

use serde_json::{Value, json};

pub use self::manifest::Manifest;
use self::template::{TemplateError, Templates};

/// The chart's name, which prefixes the names of its files.
pub const NAME: &str = "tidepool";

/// What cannot be rendered.
#[derive(Debug, thiserror::Error)]
pub enum ChartError {
    #[error(transparent)]
    Template(#[from] TemplateError),
    #[error("{file}: {what}")]
    File { file: String, what: String },
}

/// A name under which the chart is installed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Release {
    pub name: String,
    /// Helm's own namespace; objects are in the one that the values name.
    pub namespace: String,
}

impl Default for Release {
    /// What `helm template tidepool` has.
    fn default() -> Self {
        Self { name: NAME.to_owned(), namespace: "default".to_owned() }
    }
}

/// The chart, read.
#[derive(Debug)]
pub struct Chart {
    templates: Templates,
    /// `Chart.yaml`, with the names that templates use.
    about: Value,
    defaults: Value,
    files: BTreeMap<&'static str, &'static str>,
}

impl Chart {
    /// The chart that this program was built with.
    pub fn embedded() -> Result<Self, ChartError> {
        let mut templates = Templates::default();
        for (path, text) in embedded::TEMPLATES {
            templates.add(path, text)?;
        }
        let read = |file: &str, text: &str| -> Result<Value, ChartError> {
            serde_saphyr::from_str(text).map_err(|error| ChartError::File {
                file: file.to_owned(),
                what: error.to_string(),
            })
        };
        let chart = read("Chart.yaml", embedded::CHART)?;
        Ok(Self {
            templates,
            about: json!({
                "Name": chart["name"],
                "Version": chart["version"],
                "AppVersion": chart["appVersion"],
            }),
            defaults: read("values.yaml", embedded::VALUES)?,
            files: embedded::FILES.iter().copied().collect(),
        })
    }

    /// The chart's own values.
    pub fn defaults(&self) -> &Value {
        &self.defaults
    }

    /// The objects for these values, which stand over the chart's own.
    pub fn render(&self, values: &Value, release: &Release) -> Result<Vec<Manifest>, ChartError> {
        let values = values::merged(&self.defaults, values);
        let context = json!({
            "Values": values,
            "Chart": self.about,
            "Release": {
                "Name": release.name, "Namespace": release.namespace, "Service": "Helm",
            },
        });
        let mut manifests = Vec::new();
        for path in self.templates.printed() {
            let text = self.templates.render(path, &context, &self.files)?;
            manifests.extend(manifest::split(path, &text)?);
        }
        manifests.sort_by_key(Manifest::rank);
        Ok(manifests)
    }
}
