//! Laying an intent over the live object.
//!
//! Values of the intent win; nothing is removed here. Elements of lists keep an order that both sides can
//! live with: the intent's elements stand in the intent's order, elements that only the live list has stay in
//! their place relative to the shared ones around them, and new elements go as late as the next shared
//! element of the intent allows:
//!
//! ```text
//! live    a b c   g   f
//! intent      c d   e f
//! merged  a b c g d e f
//! ```

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::shape::{Elements, Form, Shape};
use super::step::Step;

/// The live value with the intent on top.
pub(super) fn merge(live: Option<&Value>, intent: &Value, shape: Shape<'_>) -> Value {
    let Some(live) = live else { return intent.clone() };
    match (shape.form(intent), live) {
        (Form::Map(_), Value::Object(map)) if intent.is_null() && !map.is_empty() => live.clone(),
        (Form::List(_), Value::Array(list)) if intent.is_null() && !list.is_empty() => live.clone(),
        (Form::Map(shape), Value::Object(live)) => match intent {
            Value::Object(intent) => Value::Object(maps(live, intent, shape)),
            _ => intent.clone(),
        },
        (Form::List(elements), Value::Array(live)) => match intent {
            Value::Array(intent) => Value::Array(lists(live, intent, elements)),
            _ => intent.clone(),
        },
        _ => intent.clone(),
    }
}

fn maps(
    live: &Map<String, Value>,
    intent: &Map<String, Value>,
    shape: Shape<'_>,
) -> Map<String, Value> {
    let mut merged = live.clone();
    for (name, value) in intent {
        let value = merge(live.get(name), value, shape.field(name).shape);
        merged.insert(name.clone(), value);
    }
    merged
}

fn lists(live: &[Value], intent: &[Value], elements: Elements<'_>) -> Vec<Value> {
    let (Some(live_steps), Some(intent_steps)) = (elements.steps(live), elements.steps(intent))
    else {
        return intent.to_vec();
    };
    let mut of_live: BTreeMap<&Step, Vec<&Value>> = BTreeMap::new();
    for (step, element) in live_steps.iter().zip(live) {
        of_live.entry(step).or_default().push(element);
    }
    let of_intent: BTreeMap<&Step, &Value> = intent_steps.iter().zip(intent).collect();
    let mut shared = intent_steps.iter().filter(|step| of_live.contains_key(step)).peekable();

    let mut merged = Vec::with_capacity(live.len().max(intent.len()));
    let mut waiting = live_steps.iter().zip(live).peekable();
    for (step, value) in intent_steps.iter().zip(intent) {
        // Whatever stands before the next shared element goes first.
        let next = shared.peek().copied();
        while let Some((step, element)) = waiting.next_if(|(step, _)| Some(*step) != next) {
            if !of_intent.contains_key(step) {
                merged.push(element.clone());
            }
        }
        // Elements of the live list that share a key are replaced, not merged.
        let below = match of_live.get(step).map(Vec::as_slice) {
            Some([only]) => Some(*only),
            _ => None,
        };
        merged.push(merge(below, value, elements.shape));
        if next == Some(step) {
            shared.next();
            waiting.next();
        }
    }
    merged.extend(
        waiting
            .filter(|(step, _)| !of_intent.contains_key(step))
            .map(|(_, element)| element.clone()),
    );
    merged
}
