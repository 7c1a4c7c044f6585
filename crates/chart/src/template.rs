//! What do the templates say for these values?
//!
//! The part of Go's text/template, and of the functions that Helm adds, which the chart is written in:
//!
//! ```text
//! text ──[lex]──> pieces and words ──[parse]──> nodes ──[render]──> text
//!                                                          └─[function]: toYaml, nindent, ...
//! ```
//!
//! Fields, variables, pipelines, `if`/`else if`/`else`, `with`, `range`, `define` and `include`, and
//! trimming are understood. Anything else is an error with file and line, so that a template that Helm
//! reads differently cannot slip in.

mod function;
mod lex;
mod parse;
mod render;

use std::collections::BTreeMap;

use serde_json::Value;

use self::parse::Node;

/// What is wrong with a template, or with the values that it meets.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{file}:{line}: {what}")]
pub struct TemplateError {
    pub file: String,
    pub line: usize,
    pub what: String,
}

/// Templates that know each other's definitions.
#[derive(Debug, Default)]
pub struct Templates {
    printed: BTreeMap<String, Vec<Node>>,
    /// What `define` made: the file it is in, and what it says.
    defined: BTreeMap<String, (String, Vec<Node>)>,
}

impl Templates {
    /// Reads a template. Files whose name begins with `_` only define.
    pub fn add(&mut self, path: &str, text: &str) -> Result<(), TemplateError> {
        let wrong = |(line, what)| TemplateError { file: path.to_owned(), line, what };
        let parsed = parse::parse(text).map_err(wrong)?;
        for (name, nodes) in parsed.defined {
            self.defined.insert(name, (path.to_owned(), nodes));
        }
        let name = path.rsplit('/').next().unwrap_or(path);
        if !name.starts_with('_') {
            self.printed.insert(path.to_owned(), parsed.nodes);
        }
        Ok(())
    }

    /// The paths of what prints something.
    pub fn printed(&self) -> impl Iterator<Item = &str> {
        self.printed.keys().map(String::as_str)
    }

    /// What a template prints in a context, with the chart's files at hand.
    pub fn render(
        &self,
        path: &str,
        context: &Value,
        files: &BTreeMap<&'static str, &'static str>,
    ) -> Result<String, TemplateError> {
        let Some(nodes) = self.printed.get(path) else {
            let what = "there is no such template".to_owned();
            return Err(TemplateError { file: path.to_owned(), line: 0, what });
        };
        render::Renderer { templates: self, files }.template(path, nodes, context, 0)
    }
}

#[cfg(test)]
mod tests;
