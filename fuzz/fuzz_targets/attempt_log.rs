//! `grounding_properties::attempt_log` on inputs that a fuzzer invents.

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| grounding_properties::attempt_log::check(input));
