//! Every text is refused or means the same after printing.

#![no_main]

use libfuzzer_sys::fuzz_target;
use units::GoDuration;

fuzz_target!(|text: &str| {
    match text.parse::<GoDuration>() {
        Ok(duration) => {
            let printed = duration.to_string();
            assert_eq!(printed.parse(), Ok(duration), "{text:?} printed as {printed:?}");
        }
        Err(error) => assert!(error.to_string().len() < 1_000),
    }
});
