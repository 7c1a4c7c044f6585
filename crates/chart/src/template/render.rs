//! What do nodes print in a context?

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::function::call;
use super::parse::{Command, Node, Pipe, Term};
use super::{TemplateError, Templates};

/// No template of ours includes itself; one that did would not end.
const DEEPEST: usize = 32;

pub(super) struct Renderer<'a> {
    pub(super) templates: &'a Templates,
    pub(super) files: &'a BTreeMap<&'static str, &'static str>,
}

/// Where we are: the context, the variables in sight, and how deep.
#[derive(Clone)]
struct Place<'a> {
    file: &'a str,
    dot: Value,
    depth: usize,
}

/// Variables in sight, the nearest last; `$` is the one without a name.
type Scope = Vec<(String, Value)>;

/// What a function answers, or why it cannot.
pub(super) type Answer = Result<Value, String>;

impl Renderer<'_> {
    pub(super) fn template(
        &self,
        file: &str,
        nodes: &[Node],
        context: &Value,
        depth: usize,
    ) -> Result<String, TemplateError> {
        let mut out = String::new();
        let mut scope = vec![(String::new(), context.clone())];
        let place = Place { file, dot: context.clone(), depth };
        self.nodes(&place, nodes, &mut scope, &mut out)?;
        Ok(out)
    }

    fn nodes(
        &self,
        place: &Place<'_>,
        nodes: &[Node],
        scope: &mut Scope,
        out: &mut String,
    ) -> Result<(), TemplateError> {
        let height = scope.len();
        for node in nodes {
            self.node(place, node, scope, out)?;
        }
        scope.truncate(height);
        Ok(())
    }

    fn node(
        &self,
        place: &Place<'_>,
        node: &Node,
        scope: &mut Scope,
        out: &mut String,
    ) -> Result<(), TemplateError> {
        match node {
            Node::Text(text) => out.push_str(text),
            Node::Print { line, pipe } => {
                let value = self.value(place, *line, pipe, scope)?;
                out.push_str(&printed(&value).map_err(|what| wrong(place.file, *line, what))?);
            }
            Node::Set { line, name, declares, pipe } => {
                let value = self.value(place, *line, pipe, scope)?;
                let known = scope.iter_mut().rev().find(|(known, _)| known == name);
                match (declares, known) {
                    (true, _) => scope.push((name.clone(), value)),
                    (false, Some(known)) => known.1 = value,
                    (false, None) => {
                        return Err(wrong(place.file, *line, format!("${name} is not declared")));
                    }
                }
            }
            Node::If { branches, otherwise } => {
                for (line, condition, body) in branches {
                    if is_true(&self.value(place, *line, condition, scope)?) {
                        return self.nodes(place, body, scope, out);
                    }
                }
                self.nodes(place, otherwise, scope, out)?;
            }
            Node::With { line, pipe, body, otherwise } => {
                let value = self.value(place, *line, pipe, scope)?;
                if is_true(&value) {
                    let inner = Place { dot: value, ..place.clone() };
                    self.nodes(&inner, body, scope, out)?;
                } else {
                    self.nodes(place, otherwise, scope, out)?;
                }
            }
            Node::Range { line, names, pipe, body, otherwise } => {
                let value = self.value(place, *line, pipe, scope)?;
                let items = items(value).map_err(|what| wrong(place.file, *line, what))?;
                if items.is_empty() {
                    self.nodes(place, otherwise, scope, out)?;
                }
                for (key, item) in items {
                    self.turn(place, names, (key, item), body, scope, out)?;
                }
            }
        }
        Ok(())
    }

    /// One turn of a range.
    fn turn(
        &self,
        place: &Place<'_>,
        names: &[String],
        (key, item): (Value, Value),
        body: &[Node],
        scope: &mut Scope,
        out: &mut String,
    ) -> Result<(), TemplateError> {
        let height = scope.len();
        match names {
            [] => {}
            [value] => scope.push((value.clone(), item.clone())),
            [first, second, ..] => {
                scope.push((first.clone(), key));
                scope.push((second.clone(), item.clone()));
            }
        }
        let inner = Place { dot: item, ..place.clone() };
        self.nodes(&inner, body, scope, out)?;
        scope.truncate(height);
        Ok(())
    }

    fn value(
        &self,
        place: &Place<'_>,
        line: usize,
        pipe: &Pipe,
        scope: &Scope,
    ) -> Result<Value, TemplateError> {
        let mut passed = None;
        for command in &pipe.0 {
            passed = Some(self.command(place, line, command, passed, scope)?);
        }
        Ok(passed.unwrap_or_default())
    }

    fn command(
        &self,
        place: &Place<'_>,
        line: usize,
        command: &Command,
        passed: Option<Value>,
        scope: &Scope,
    ) -> Result<Value, TemplateError> {
        let fail = |what| wrong(place.file, line, what);
        // Like Go, these two look no further than they must.
        if let Term::Function(name) = &command.head
            && let "and" | "or" = name.as_str()
        {
            let mut last = Value::Null;
            for term in &command.arguments {
                last = self.term(place, line, term, scope)?;
                if is_true(&last) == (name == "or") {
                    return Ok(last);
                }
            }
            return Ok(passed.unwrap_or(last));
        }
        let mut arguments = Vec::new();
        for term in &command.arguments {
            arguments.push(self.term(place, line, term, scope)?);
        }
        arguments.extend(passed);
        if let Some(method) = file_method(&command.head) {
            return self.file(method, &arguments).map_err(fail);
        }
        let Term::Function(name) = &command.head else {
            if !arguments.is_empty() {
                return Err(fail("only functions have arguments".to_owned()));
            }
            return self.term(place, line, &command.head, scope);
        };
        if name == "include" {
            return self.include(place, line, &arguments);
        }
        call(name, arguments).map_err(|what| fail(format!("{name}: {what}")))
    }

    fn include(
        &self,
        place: &Place<'_>,
        line: usize,
        arguments: &[Value],
    ) -> Result<Value, TemplateError> {
        let fail = |what: &str| wrong(place.file, line, format!("include: {what}"));
        let [Value::String(name), context] = arguments else {
            return Err(fail("takes a name and a context"));
        };
        let (file, nodes) = self
            .templates
            .defined
            .get(name)
            .ok_or_else(|| fail(&format!("{name:?} is not defined")))?;
        let depth = place.depth.saturating_add(1);
        if depth > DEEPEST {
            return Err(fail(&format!("{name:?} includes itself")));
        }
        self.template(file, nodes, context, depth).map(Value::String)
    }

    fn term(
        &self,
        place: &Place<'_>,
        line: usize,
        term: &Term,
        scope: &Scope,
    ) -> Result<Value, TemplateError> {
        let fail = |what| wrong(place.file, line, what);
        Ok(match term {
            Term::Field(names) => field(&place.dot, names).map_err(fail)?,
            Term::Variable(name, fields) => {
                let found = scope.iter().rev().find(|(known, _)| known == name);
                let (_, value) = found.ok_or_else(|| fail(format!("${name} is not declared")))?;
                field(value, fields).map_err(fail)?
            }
            Term::Text(text) => Value::String(text.clone()),
            Term::Number(number) => Value::from(*number),
            Term::Bool(bool) => Value::Bool(*bool),
            Term::Nil => Value::Null,
            Term::Pipe(pipe) => self.value(place, line, pipe, scope)?,
            Term::Function(name) => {
                call(name, Vec::new()).map_err(|what| fail(format!("{name}: {what}")))?
            }
        })
    }

    fn file(&self, method: FileMethod, arguments: &[Value]) -> Answer {
        let [Value::String(path)] = arguments else {
            return Err("files are named by one path".to_owned());
        };
        match method {
            FileMethod::Get => Ok(Value::String(
                self.files.get(path.as_str()).copied().unwrap_or_default().to_owned(),
            )),
            FileMethod::Glob => {
                let (before, after) = path.split_once('*').unwrap_or((path, ""));
                let fits = |known: &str| {
                    known
                        .strip_prefix(before)
                        .and_then(|rest| rest.strip_suffix(after))
                        .is_some_and(|middle| !middle.contains('/'))
                };
                let found = self.files.iter().filter(|(known, _)| fits(known));
                let found = found.map(|(path, text)| ((*path).to_owned(), Value::from(*text)));
                Ok(Value::Object(found.collect()))
            }
        }
    }
}

#[derive(Debug, Clone, Copy)]
enum FileMethod {
    Get,
    Glob,
}

fn file_method(head: &Term) -> Option<FileMethod> {
    let (Term::Field(names) | Term::Variable(_, names)) = head else { return None };
    match names.as_slice() {
        [files, method] if files == "Files" => match method.as_str() {
            "Get" => Some(FileMethod::Get),
            "Glob" => Some(FileMethod::Glob),
            _ => None,
        },
        _ => None,
    }
}

fn wrong(file: &str, line: usize, what: String) -> TemplateError {
    TemplateError { file: file.to_owned(), line, what }
}

/// A missing key is nothing; a key of nothing is an error, as in Go.
fn field(value: &Value, names: &[String]) -> Answer {
    let mut value = value;
    for name in names {
        value = match value {
            Value::Object(map) => map.get(name).unwrap_or(&Value::Null),
            Value::Null => return Err(format!("there is nothing that could have .{name}")),
            _ => return Err(format!("only maps have fields such as .{name}")),
        };
    }
    Ok(value.clone())
}

/// Go's truth: anything but zero and the empty.
pub(super) fn is_true(value: &Value) -> bool {
    match value {
        Value::Null => false,
        Value::Bool(bool) => *bool,
        Value::Number(number) => number.as_f64() != Some(0.0),
        Value::String(text) => !text.is_empty(),
        Value::Array(items) => !items.is_empty(),
        Value::Object(map) => !map.is_empty(),
    }
}

pub(super) fn printed(value: &Value) -> Result<String, String> {
    Ok(match value {
        Value::Null => String::new(),
        Value::Bool(bool) => bool.to_string(),
        Value::Number(number) => number.to_string(),
        Value::String(text) => text.clone(),
        Value::Array(_) | Value::Object(_) => {
            return Err("a list or a map is printed with toYaml".to_owned());
        }
    })
}

fn items(value: Value) -> Result<Vec<(Value, Value)>, String> {
    let numbered = |items: Vec<Value>| {
        let keys = (0_i64..).map(Value::from);
        keys.zip(items).collect()
    };
    match value {
        Value::Null => Ok(Vec::new()),
        Value::Array(items) => Ok(numbered(items)),
        Value::Object(map) => Ok(sorted(map)),
        _ => Err("range goes over a list or a map".to_owned()),
    }
}

fn sorted(map: Map<String, Value>) -> Vec<(Value, Value)> {
    let ordered: BTreeMap<String, Value> = map.into_iter().collect();
    ordered.into_iter().map(|(key, value)| (Value::String(key), value)).collect()
}
