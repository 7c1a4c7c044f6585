//! Which plugins run at which point, in which order, with which weight?
//!
//! All defaults stand in one list called `multiPoint`. A profile changes that
//! list, and then the list of each single point:
//!
//! ```text
//! multiPoint   defaults without `disabled`; an entry of `enabled` that names a
//!              default takes its place, others follow
//! each point   1. named in the point's `enabled` and offered by multiPoint, as written
//!              2. offered by multiPoint otherwise
//!              3. the rest of the point's `enabled`, as written
//! ```
//!
//! multiPoint offers a point every plugin that acts there and that the point
//! does not disable; `*` disables all, so that the point's own list stands
//! alone. A plugin that writes all others' annotations ends `preBind`.

use std::collections::BTreeMap;

use super::file::{Mention, PluginSet, Plugins};
use super::plugins::{DEFAULT_PRE_BIND, Known, PLUGINS, Point};
use crate::finding::{Code, Finding};
use crate::shape::nearest;

/// One plugin in the list of a point.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Enabled {
    pub plugin: &'static Known,
    /// Positive where scores are; sums of 32-bit weights cannot overflow.
    pub weight: i64,
}

/// What runs, by point, in order; plugins that are not implemented included.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Points(BTreeMap<Point, Vec<Enabled>>);

impl Points {
    /// Every plugin of a point, in the order of running.
    pub fn all(&self, point: Point) -> &[Enabled] {
        self.0.get(&point).map_or(&[], Vec::as_slice)
    }

    /// Those that do something.
    pub fn active(&self, point: Point) -> impl Iterator<Item = Enabled> {
        self.all(point).iter().copied().filter(|enabled| enabled.plugin.is_implemented)
    }

    pub fn names(&self, point: Point) -> Vec<&'static str> {
        self.all(point).iter().map(|enabled| enabled.plugin.name).collect()
    }

    /// Does this plugin act anywhere?
    pub fn has(&self, name: &str) -> bool {
        self.0.values().flatten().any(|enabled| enabled.plugin.name == name)
    }
}

fn set_of(plugins: &Plugins, point: Point) -> &PluginSet {
    match point {
        Point::PreEnqueue => &plugins.pre_enqueue,
        Point::QueueSort => &plugins.queue_sort,
        Point::PreFilter => &plugins.pre_filter,
        Point::Filter => &plugins.filter,
        Point::PostFilter => &plugins.post_filter,
        Point::PreScore => &plugins.pre_score,
        Point::Score => &plugins.score,
        Point::Reserve => &plugins.reserve,
        Point::Permit => &plugins.permit,
        Point::PreBind => &plugins.pre_bind,
        Point::Bind => &plugins.bind,
        Point::PostBind => &plugins.post_bind,
    }
}

/// The lists of one profile. `path` leads to its `plugins`.
pub fn merge(plugins: &Plugins, path: &str, findings: &mut Vec<Finding>) -> Points {
    let multi = multi_point(&plugins.multi_point, &format!("{path}.multiPoint"), findings);
    let mut points = BTreeMap::new();
    for point in Point::ALL.iter().copied() {
        let place = format!("{path}.{point}");
        let mut list = at_point(&multi, point, set_of(plugins, point), &place, findings);
        if point == Point::PreBind && !is_disabled_by_name(plugins, DEFAULT_PRE_BIND) {
            append_default_pre_bind(&mut list);
        }
        points.insert(point, list);
    }
    check(&points, path, findings);
    Points(points)
}

fn is_disabled_by_name(plugins: &Plugins, name: &str) -> bool {
    let sets = [&plugins.multi_point, &plugins.pre_bind];
    sets.iter().any(|set| set.disabled.iter().any(|mention| mention.name == name))
}

fn append_default_pre_bind(list: &mut Vec<Enabled>) {
    let own = list.iter().position(|enabled| enabled.plugin.name == DEFAULT_PRE_BIND);
    let last = match own {
        Some(index) => Some(list.remove(index)),
        None => Known::named(DEFAULT_PRE_BIND).map(|plugin| Enabled { plugin, weight: 0 }),
    };
    list.extend(last);
}

/// The list of all points.
fn multi_point(set: &PluginSet, path: &str, findings: &mut Vec<Finding>) -> Vec<Enabled> {
    let written = known(&set.enabled, path, findings);
    warn_of_unknown(&set.disabled, path, findings);
    let mut list: Vec<Enabled> = PLUGINS
        .iter()
        .filter(|plugin| plugin.is_default && !disables(set, plugin.name))
        .map(|plugin| {
            let own = written.iter().find(|enabled| enabled.plugin == plugin);
            own.copied().unwrap_or(Enabled { plugin, weight: plugin.weight })
        })
        .collect();
    for enabled in written {
        if !list.iter().any(|other| other.plugin == enabled.plugin) {
            list.push(enabled);
        }
    }
    list
}

fn at_point(
    multi: &[Enabled],
    point: Point,
    set: &PluginSet,
    path: &str,
    findings: &mut Vec<Finding>,
) -> Vec<Enabled> {
    let mut written = known(&set.enabled, path, findings);
    warn_of_unknown(&set.disabled, path, findings);
    written.retain(|enabled| {
        let acts = enabled.plugin.acts_at(point);
        if !acts {
            let points: Vec<&str> = enabled.plugin.points.iter().map(|own| own.as_str()).collect();
            let rule = format!("the plugin does nothing at {point}");
            let fix = format!("name it at {}, or remove it here", points.join(", "));
            findings.push(
                Finding::error(Code::PluginPlace, rule, fix)
                    .path(format!("{path}.enabled"))
                    .value(enabled.plugin.name),
            );
        }
        acts
    });
    let offered: Vec<Enabled> = multi
        .iter()
        .copied()
        .filter(|own| own.plugin.acts_at(point) && !disables(set, own.plugin.name))
        .collect();
    let has = |list: &[Enabled], plugin: &Known| list.iter().any(|own| own.plugin == plugin);
    let (mut list, rest): (Vec<Enabled>, Vec<Enabled>) =
        written.iter().copied().partition(|own| has(&offered, own.plugin));
    list.extend(offered.into_iter().filter(|own| !has(&written, own.plugin)));
    list.extend(rest);
    list
}

/// The plugins of a written list; what is not known, or named twice, is reported and left out.
fn known(mentions: &[Mention], path: &str, findings: &mut Vec<Finding>) -> Vec<Enabled> {
    let mut list: Vec<Enabled> = Vec::new();
    for (index, mention) in mentions.iter().enumerate() {
        let place = format!("{path}.enabled[{index}]");
        let Some(plugin) = Known::named(&mention.name) else {
            findings.push(unknown(&mention.name, true).path(format!("{place}.name")));
            continue;
        };
        if list.iter().any(|own| own.plugin == plugin) {
            let rule = "the plugin is named twice in one list";
            findings.push(
                Finding::error(Code::PluginPlace, rule, "keep one of the two")
                    .path(format!("{place}.name"))
                    .value(&mention.name),
            );
            continue;
        }
        let weight = i64::from(mention.weight.unwrap_or_default());
        if weight < 0 {
            let fix = format!("use {}, the default, or remove the field", plugin.weight.max(1));
            findings.push(
                Finding::error(Code::OutOfRange, "must not be negative", fix)
                    .path(format!("{place}.weight"))
                    .value(weight.to_string()),
            );
        }
        list.push(Enabled { plugin, weight: if weight == 0 { plugin.weight } else { weight } });
    }
    list
}

fn warn_of_unknown(mentions: &[Mention], path: &str, findings: &mut Vec<Finding>) {
    for (index, mention) in mentions.iter().enumerate() {
        if mention.name != "*" && Known::named(&mention.name).is_none() {
            let place = format!("{path}.disabled[{index}].name");
            findings.push(unknown(&mention.name, false).path(place));
        }
    }
}

pub(super) fn unknown(name: &str, is_error: bool) -> Finding {
    let fix = match nearest(name, PLUGINS.iter().map(|plugin| plugin.name)) {
        Some(name) => format!("did you mean {name}?"),
        None => "remove it".to_owned(),
    };
    let finding = match is_error {
        true => Finding::error(Code::UnknownPlugin, "there is no such plugin", fix),
        false => Finding::warning(Code::UnknownPlugin, "there is no such plugin to disable", fix),
    };
    finding.value(name)
}

fn disables(set: &PluginSet, name: &str) -> bool {
    set.disabled.iter().any(|mention| mention.name == "*" || mention.name == name)
}

/// What every profile needs.
fn check(points: &BTreeMap<Point, Vec<Enabled>>, path: &str, findings: &mut Vec<Finding>) {
    let at = |point| points.get(&point).map_or(&[][..], Vec::as_slice);
    let shape = |rule: String, fix: &str, point: Point| {
        Finding::error(Code::ProfileShape, rule, fix).path(format!("{path}.{point}"))
    };
    let sorts = at(Point::QueueSort);
    if sorts.len() != 1 {
        let rule = format!("a profile needs one queueSort plugin, and has {}", sorts.len());
        findings.push(shape(rule, "enable PrioritySort there and nothing else", Point::QueueSort));
    }
    if !at(Point::Bind).iter().any(|own| own.plugin.is_implemented) {
        let rule = "a profile needs a plugin that binds".to_owned();
        findings.push(shape(rule, "enable DefaultBinder there", Point::Bind));
    }
}

#[cfg(test)]
mod tests;
