//! Finds the kind of a claim in its words (SPEC 5).
//!
//! The first kind with a matching word wins, in the order of the table. Words match whole, in lower case, with a plural
//! -s or -es allowed; parts of longer words must never match.

use grounding_proto::claim::ClaimType;

/// The words of each kind, in the order in which the kinds are tried.
const WORDS: &[(ClaimType, &[&str])] = &[
    (ClaimType::Architecture, &["architecture", "architektur", "design flaw", "system design"]),
    (
        ClaimType::RootCause,
        &[
            "root cause",
            "root-cause",
            "root_cause",
            "rootcause",
            "eigentliche ursache",
            "grundursache",
            "because",
            "caused by",
            "due to",
            "culprit",
            "the reason is",
            "responsible for",
            "verursacht",
        ],
    ),
    (
        ClaimType::Security,
        &[
            "security",
            "sicherheit",
            "cve",
            "injection",
            "exploit",
            "auth",
            "authn",
            "authz",
            "authentication",
            "authorization",
            "oauth",
        ],
    ),
    (ClaimType::Network, &["network", "netzwerk", "firewall", "port", "dns", "tcp", "udp"]),
    (ClaimType::Configuration, &["config", "configuration", "konfiguration", "env", "environment", "setting"]),
    (ClaimType::Process, &["process", "prozess", "service läuft", "not running", "stopped"]),
    (ClaimType::Availability, &["available", "unavailable", "verfügbar", "down", "unreachable", "offline"]),
    (ClaimType::Token, &["token", "key", "secret", "credential", "api key", "api-key", "api_key", "apikey"]),
];

/// Returns the kind of a claim: the first whose words occur in it, else generic.
pub(super) fn detect(claim: &str) -> ClaimType {
    // A claim may be wrapped: any run of white space stands for the one space of a phrase.
    let text = claim.to_lowercase().split_whitespace().collect::<Vec<_>>().join(" ");
    let named = |(_, words): &&(ClaimType, &[&str])| words.iter().any(|word| contains_word(&text, word));
    WORDS.iter().find(named).map_or(ClaimType::Generic, |(kind, _)| *kind)
}

fn contains_word(text: &str, word: &str) -> bool {
    text.match_indices(word).any(|(start, _)| {
        let rest = &text[start + word.len()..];
        let endings = [Some(rest), rest.strip_prefix('s'), rest.strip_prefix("es")];
        !text[..start].ends_with(is_word_character)
            && endings.into_iter().flatten().any(|rest| !rest.starts_with(is_word_character))
    })
}

fn is_word_character(character: char) -> bool {
    character.is_alphanumeric() || character == '_'
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_match_whole_and_in_the_plural_only() {
        assert!(contains_word("all processes ended", "process"));
        assert!(contains_word("(tokens)", "token"));
        assert!(!contains_word("tokenizer", "token"));
        assert!(!contains_word("my_token", "token"));
        assert!(!contains_word("überport", "port"));
        assert!(contains_word("airport, port", "port"), "a later whole word counts");
    }

    #[test]
    fn a_wrapped_phrase_is_still_a_phrase() {
        assert_eq!(detect("this is the root\n   Cause"), ClaimType::RootCause);
    }
}
