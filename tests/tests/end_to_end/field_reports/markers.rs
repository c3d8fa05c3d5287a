//! Sections H and I: what becomes a file name, and what is signed.

use grounding_proto::exit::FAILED;
use grounding_tests::TestEnvironment;
use serde_json::json;

use crate::stub::{self, files_below};

/// 123, anomalyco/opencode#49142, eclipse-scout PR#2235: a title became a file name of 305 bytes; the limit is in bytes.
#[test]
fn an_id_of_200_multi_byte_characters_fits_every_file_name() {
    let environment = stub::environment();
    let repository = environment.repository("repo");
    let mut shim = environment.shim();
    // 200 UTF-16 code units each; up to 600 bytes.
    for id in ["é".repeat(200), "漢".repeat(200), "😀".repeat(100), "x".repeat(200)] {
        let task = json!({ "id": id, "repoPath": repository.text() });
        let evaluated = shim.answer("solution_evaluate", task.clone());
        assert_eq!(evaluated["verdict"]["id"], json!(id), "{evaluated}");
        assert_eq!(shim.answer("solution_gate", task)["code"], "ready");
        let status = shim.answer("solution_evaluate_status", json!({ "id": id }));
        assert_eq!(status["status"], "completed", "{status}");
        let longer = json!({ "id": format!("{id}x"), "repoPath": repository.text() });
        assert!(shim.refusal("solution_evaluate", longer).contains("200"));
    }
    let session = "s".repeat(240);
    let _ = shim.answer("hypothesis_record", json!({ "sessionId": session, "text": "t" }));
    let listed = shim.answer("hypothesis_list", json!({ "sessionId": session }));
    assert_eq!(listed["summary"]["total"], 1, "{listed}");
    let started = shim.answer("grounding_start", json!({ "keyword": format!("é{}", "k".repeat(63)), "problem": "p" }));
    let _ = shim.answer("grounding_advance", json!({ "sessionId": started["sessionId"] }));

    let names: Vec<_> = files_below(environment.home())
        .into_iter()
        .filter_map(|path| path.file_name()?.to_str().map(str::len))
        .collect();
    assert!(names.iter().all(|length| *length <= 255) && names.len() > 10, "{names:?}");
}

/// R1 of the original: an unsigned `{id, head, ready: true}` opened the gate, and so did a marker of a colliding id.
#[test]
fn a_hand_written_marker_opens_nothing_whatever_it_says() {
    let environment = stub::environment();
    let repository = environment.repository("repo");
    let mut shim = environment.shim();
    let key = environment.path(".harness/harness.generated/.approval-signing.key");
    std::fs::create_dir_all(key.parent().expect("a directory")).expect("made");
    std::fs::write(&key, [7; 32]).expect("a key");
    let plain = json!({ "id": "task", "head": repository.head(), "ready": true });
    let mut dressed = json!({
        "id": "task", "head": repository.head(), "ready": true, "confidence": 1, "blockers": [],
        "timestamp": "2026-12-01T07:12:02.000Z", "source": "preflight"
    });
    let mut codes = Vec::new();
    let mut ask = |marker: &serde_json::Value| {
        std::fs::create_dir_all(environment.path(stub::VERDICTS)).expect("made");
        std::fs::write(stub::file(&environment, ".json"), marker.to_string()).expect("a marker");
        let gate = shim.answer("solution_gate", stub::task(&repository));
        assert_eq!((&gate["allowed"], gate["verdict"].is_null()), (&json!(false), true), "{gate}");
        codes.push(gate["code"].as_str().expect("a code").to_owned());
    };
    ask(&plain);
    ask(&dressed);
    for (alg, signature) in [("none", ""), ("hmac-sha256-v1", ""), ("hmac-sha256-v1", &*"0".repeat(64)), ("HS256", "x")]
    {
        dressed["alg"] = json!(alg);
        dressed["signature"] = json!(signature);
        ask(&dressed);
    }
    assert_eq!(codes[0], "invalid_marker");
    assert!(codes[1..].iter().all(|code| code == "forged"), "{codes:?}");
}

/// U10 of the original: each side resolved the key's path for itself, and a relative or `~` value made a key that nobody
/// found.
#[test]
fn every_side_finds_the_same_key() {
    type Prepare = fn(&mut TestEnvironment);
    let cases: [(&str, Prepare, &str); 5] = [
        ("default", |_| {}, ".harness"),
        ("harness", |environment| environment.write(".harness/x", ""), ".harness"),
        ("claude", |environment| environment.write(".claude/harness.yaml", ""), ".claude"),
        (
            "home",
            |environment| {
                let home = environment.path("own");
                environment.set("HARNESS_HOME", home);
            },
            "own",
        ),
        ("blank", |environment| environment.set("HARNESS_HOME", "  "), ".harness"),
    ];
    for (name, prepare, home) in cases {
        let mut environment = stub::environment();
        prepare(&mut environment);
        let repository = environment.repository("repo");
        let evaluated = environment.shim().answer("solution_evaluate", stub::task(&repository));
        assert_eq!(evaluated["verdict"]["ready"], true, "{name}: {evaluated}");
        let key = environment.path(home).join("harness.generated/.approval-signing.key");
        assert_eq!(std::fs::read(&key).map(|key| key.len()).ok(), Some(32), "{name}: no key at {}", key.display());
        let gate = environment.groundingctl(&["gate", "task", "--repo", repository.text()]);
        assert_eq!(gate.status.code(), Some(0), "{name}: {gate:?}");
    }
    for refused in ["~/key", "key", "./key"] {
        let mut environment = stub::environment();
        environment.set("SOLUTION_VERDICT_SIGNING_KEY", refused);
        let repository = environment.repository("repo");
        let before = files_below(environment.home()).len();
        let gate = environment.groundingctl(&["gate", "task", "--repo", repository.text()]);
        let said = String::from_utf8_lossy(&gate.stderr).into_owned();
        assert!(
            gate.status.code() == Some(i32::from(FAILED)) && said.contains("SOLUTION_VERDICT_SIGNING_KEY"),
            "{refused}: {said}"
        );
        assert_eq!(files_below(environment.home()).len(), before, "{refused}: something was made");
    }
}
