//! Whatever is in a file, `config check` answers with findings or an error.
//!
//! The first byte chooses how the text is taken: as a file of unknown content,
//! or as one of the eight keys. A text that is accepted is loaded and rendered
//! for a node as well.

#![no_main]

use std::collections::BTreeMap;

use api::config::{Config, Key, Options};
use api::document;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Some((&choice, bytes)) = bytes.split_first() else { return };
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let key = Key::ALL.get(usize::from(choice % 16)).copied();
    let options = Options { names_required: choice >= 128 };

    if let Ok(found) = document::check("file", text, key, options) {
        for located in found {
            assert!(!located.finding.to_string().is_empty());
        }
    }
    if let Some(key) = key {
        let data = BTreeMap::from([(key.name().to_owned(), text.to_owned())]);
        let (config, _) = Config::load(&data, None, "ConfigMap a/b", options);
        let view = config.for_node(&Default::default());
        let again = view.clone().as_agent_sees().as_agent_sees();
        assert_eq!(again, view.as_agent_sees());
    }
});
