//! Every text is refused or means the same after printing and on the wire.

#![no_main]

use libfuzzer_sys::fuzz_target;
use units::Quantity;

fuzz_target!(|text: &str| {
    let wire = Quantity::wire_text(text);
    match text.parse::<Quantity>() {
        Ok(quantity) => {
            let printed = quantity.to_string();
            assert_eq!(printed.parse(), Ok(quantity), "{text:?} printed as {printed:?}");
            let wire = wire.expect("what parses has a wire text");
            assert_eq!(wire.parse(), Ok(quantity), "{text:?} on the wire as {wire:?}");
        }
        Err(error) => {
            assert!(error.to_string().len() < 1_000);
            assert_eq!(wire, Err(error));
        }
    }
});
