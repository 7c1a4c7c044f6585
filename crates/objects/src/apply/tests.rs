//! A cluster of one object, to tell stories about its managers.

mod documented;
mod laws;
mod ledger;
mod lists;
mod reference;
mod refusals;
mod widgets;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::*;
use crate::schema::built_in::Schemas;

/// One event in the life of an object.
#[derive(Debug, Clone)]
enum Event {
    Apply(&'static str, Value),
    Force(&'static str, Value),
    /// An apply that is refused with this message.
    Conflict(&'static str, Value, &'static str),
    /// A write of the whole object.
    Update(&'static str, Value),
}

/// An object and the server that keeps it. Every write happens a second after the one before.
#[derive(Clone)]
struct Server {
    schema: Schema,
    live: Option<Value>,
    seconds: i64,
    subresource: &'static str,
}

/// Failing properties print their input; the schema in it would fill screens.
impl std::fmt::Debug for Server {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "{} at {}", self.live.clone().unwrap_or_default(), self.seconds)
    }
}

impl Server {
    fn new(schema: Schema) -> Self {
        Self { schema, live: None, seconds: 0, subresource: "" }
    }

    fn built_in(group: &str, kind: &str) -> Self {
        let schema =
            Schemas::built_in().get(&Gvk::new(group, "v1", kind)).expect("a built-in kind");
        Self::new(schema.clone())
    }

    fn widgets() -> Self {
        Self::new(widgets::schema())
    }

    fn on(mut self, subresource: &'static str) -> Self {
        self.subresource = subresource;
        self
    }

    fn full(&self, mut object: Value) -> Value {
        if let Value::Object(object) = &mut object {
            let gvk = self.schema.gvk();
            object.entry("apiVersion").or_insert_with(|| json!(gvk.api_version()));
            object.entry("kind").or_insert_with(|| json!(gvk.kind));
            let metadata = object.entry("metadata").or_insert_with(|| json!({}));
            if let Value::Object(metadata) = metadata {
                metadata.entry("name").or_insert_with(|| json!("x"));
            }
        }
        object
    }

    fn at(&mut self) -> Timestamp {
        self.seconds += 1;
        Timestamp::from_second(self.seconds).expect("a small number of seconds")
    }

    fn apply(&mut self, manager: &str, intent: &Value, force: bool) -> Result<(), ApplyError> {
        let now = self.at();
        let reset = reset_fields(self.schema.gvk(), self.subresource, true);
        let writer = Writer { manager, subresource: self.subresource, reset: &reset, now };
        let intent = self.full(intent.clone());
        self.live = Some(apply(self.live.as_ref(), &intent, &writer, force, &self.schema)?);
        Ok(())
    }

    fn update(&mut self, manager: &str, object: &Value) {
        let now = self.at();
        let reset = reset_fields(self.schema.gvk(), self.subresource, true);
        let writer = Writer { manager, subresource: self.subresource, reset: &reset, now };
        let mut object = self.full(object.clone());
        track_update(self.live.as_ref(), &mut object, &writer, &self.schema);
        self.live = Some(object);
    }

    fn run(&mut self, name: &str, event: &Event) {
        match event {
            Event::Apply(manager, intent) => self
                .apply(manager, intent, false)
                .unwrap_or_else(|error| panic!("{name}: {manager} is refused: {error}")),
            Event::Force(manager, intent) => self
                .apply(manager, intent, true)
                .unwrap_or_else(|error| panic!("{name}: {manager} is refused: {error}")),
            Event::Conflict(manager, intent, said) => {
                let error = self.apply(manager, intent, false).expect_err(name);
                assert_eq!(error.to_string(), *said, "{name}");
                assert_eq!(error.code(), 409, "{name}");
            }
            Event::Update(manager, object) => self.update(manager, object),
        }
    }

    /// The object without `managedFields` and without what [`Server::full`] adds.
    fn object(&self) -> Value {
        let mut object = self.live.clone().unwrap_or_default();
        managed::take_from(&mut object);
        if let Value::Object(object) = &mut object {
            object.remove("apiVersion");
            object.remove("kind");
            let metadata = object.get_mut("metadata").and_then(Value::as_object_mut);
            if metadata.is_some_and(|metadata| {
                metadata.remove("name");
                metadata.is_empty()
            }) {
                object.remove("metadata");
            }
        }
        object
    }

    /// One line for each manager, as they stand in `managedFields`: `a Apply: .spec.x .spec.y`.
    fn owners(&self) -> Vec<String> {
        let live = self.live.clone().unwrap_or_default();
        entries(&live)
            .iter()
            .map(|entry| {
                let text = |name: &str| entry[name].as_str().unwrap_or_default();
                let paths = FieldSet::from_value(&entry["fieldsV1"]).expect("a field set").paths();
                let paths: Vec<String> = paths.iter().map(Path::to_string).collect();
                let at = if text("subresource").is_empty() { "" } else { "/" };
                let (manager, operation) = (text("manager"), text("operation"));
                format!("{manager} {operation}{at}{}: {}", text("subresource"), paths.join(" "))
            })
            .collect()
    }

    fn times(&self) -> Vec<String> {
        let live = self.live.clone().unwrap_or_default();
        let line =
            |entry: &Value| format!("{} {}", entry["manager"], entry["time"]).replace('"', "");
        entries(&live).iter().map(line).collect()
    }
}

/// A story: what happened, what the object looks like now, and who owns what.
struct Story {
    name: &'static str,
    events: Vec<Event>,
    object: Value,
    owners: Vec<&'static str>,
}

fn tell(server: &Server, stories: Vec<Story>) {
    for Story { name, events, object, owners } in stories {
        let mut server = server.clone();
        for event in &events {
            server.run(name, event);
        }
        assert_eq!(server.object(), object, "{name}");
        assert_eq!(server.owners(), owners, "{name}");
    }
}
