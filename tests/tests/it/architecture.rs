//! The rules that hold the workspace together: who may depend on whom, and what no file may have.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use system_tests::skip::workspace;

/// The members, by the folder of their manifest.
const MEMBERS: [(&str, &str); 6] = [
    ("agent-service", "agent-service"),
    ("agent-core", "agent-service/core"),
    ("service-kit", "agent-service/kit"),
    ("agent-wire", "agent-service/wire"),
    ("sensor-bridge", "sensor-bridge"),
    ("system-tests", "tests"),
];

#[test]
fn the_members_are_the_six_that_the_layout_has() {
    let graph = Graph::read();
    let expected: BTreeSet<&str> = MEMBERS.iter().map(|(name, _)| *name).collect();
    assert_eq!(graph.members.iter().map(String::as_str).collect::<BTreeSet<_>>(), expected);
}

#[test]
fn wire_and_kit_depend_on_nothing_of_ours() {
    let graph = Graph::read();
    for member in ["agent-wire", "service-kit"] {
        assert_eq!(graph.ours(member), BTreeSet::new(), "{member}");
    }
}

#[test]
fn core_depends_on_wire_alone_and_on_nothing_that_does_io() {
    let graph = Graph::read();
    assert_eq!(graph.ours("agent-core"), BTreeSet::from(["agent-wire"]));
    let reached = graph.reached("agent-core");
    for io in ["tokio", "sqlx", "axum", "hyper", "reqwest", "rustls", "tracing", "rand", "fastrand"]
    {
        assert!(!reached.contains(io), "agent-core reaches {io}");
    }
}

#[test]
fn sensor_bridge_reaches_neither_the_service_nor_its_rules_nor_a_database() {
    let graph = Graph::read();
    assert_eq!(graph.ours("sensor-bridge"), BTreeSet::from(["agent-wire", "service-kit"]));
    let reached = graph.reached("sensor-bridge");
    for foreign in ["agent-core", "agent-service", "sqlx", "sqlx-core", "libsqlite3-sys"] {
        assert!(!reached.contains(foreign), "sensor-bridge reaches {foreign}");
    }
}

#[test]
fn agent_service_never_reaches_the_bridge() {
    assert!(!Graph::read().reached("agent-service").contains("sensor-bridge"));
}

#[test]
fn ring_is_the_only_provider_of_cryptography() {
    let graph = Graph::read();
    for program in ["agent-service", "sensor-bridge"] {
        let reached = graph.reached(program);
        for other in ["aws-lc-rs", "aws-lc-sys", "openssl", "openssl-sys", "native-tls"] {
            assert!(!reached.contains(other), "{program} reaches {other}");
        }
    }
}

#[test]
fn versions_stand_in_the_workspace_alone() {
    for (_, folder) in MEMBERS {
        let manifest = workspace().join(folder).join("Cargo.toml");
        let text = fs::read_to_string(&manifest).unwrap();
        let mut in_dependencies = false;
        for line in text.lines().map(str::trim) {
            if line.starts_with('[') {
                in_dependencies = line.trim_matches(['[', ']']).ends_with("dependencies");
            } else if in_dependencies && !line.is_empty() && !line.starts_with('#') {
                let inherits = line.contains("workspace = true");
                assert!(inherits, "{}: `{line}` has a version of its own", manifest.display());
            }
        }
    }
}

#[test]
fn every_member_opts_into_the_lints_of_the_workspace() {
    for (_, folder) in MEMBERS {
        let text = fs::read_to_string(workspace().join(folder).join("Cargo.toml")).unwrap();
        let lints = text.split("[lints]").nth(1).unwrap_or_default().trim_start();
        assert!(lints.starts_with("workspace = true"), "{folder}");
    }
}

#[test]
fn no_lint_is_allowed_where_it_can_be_expected_with_a_reason() {
    // In two pieces, so that this file is none of those that it looks for.
    let forbidden = [format!("#[{}(", "allow"), format!("#![{}(", "allow")];
    for (file, text) in sources() {
        for forbidden in &forbidden {
            assert!(!text.contains(forbidden.as_str()), "{}: {forbidden}", file.display());
        }
    }
}

#[test]
fn nothing_is_left_for_later_in_the_code() {
    let forbidden =
        [format!("{}!(", "todo"), format!("{}!(", "unimplemented"), format!("{}!(", "dbg")];
    for (file, text) in sources() {
        for forbidden in &forbidden {
            assert!(!text.contains(forbidden.as_str()), "{}: {forbidden}", file.display());
        }
    }
}

#[test]
fn the_database_is_seen_by_the_store_alone_and_the_server_by_http_alone() {
    let service = workspace().join("agent-service/src");
    let allowed = [("sqlx::", "store"), ("hyper::", "http"), ("hyper_util::", "http")];
    for (file, text) in sources() {
        let Ok(inside) = file.strip_prefix(&service) else { continue };
        if inside.components().any(|part| part.as_os_str().to_string_lossy().starts_with("tests")) {
            continue;
        }
        for (path, module) in allowed {
            assert!(
                !text.contains(path) || inside.starts_with(module),
                "{} uses {path} outside of {module}/",
                file.display()
            );
        }
    }
}

#[test]
fn inside_the_service_dependencies_point_one_way() {
    let service = workspace().join("agent-service/src");
    let forbidden = [
        ("store", ["crate::http", "crate::intake", "crate::worker"].as_slice()),
        ("runner", &["crate::http", "crate::store", "crate::intake", "crate::worker"]),
        ("http", &["crate::store", "crate::worker", "crate::runner"]),
        ("intake", &["crate::worker", "crate::runner"]),
    ];
    for (file, text) in sources() {
        let Ok(inside) = file.strip_prefix(&service) else { continue };
        for (module, others) in forbidden {
            for other in others {
                assert!(
                    !inside.starts_with(module) || !text.contains(other),
                    "{} uses {other}",
                    file.display()
                );
            }
        }
    }
}

/// Every Rust file of the workspace with its text.
fn sources() -> Vec<(PathBuf, String)> {
    let mut found = Vec::new();
    for folder in ["agent-service", "sensor-bridge", "tests"] {
        collect(&workspace().join(folder), &mut found);
    }
    assert!(found.len() > 50, "{}", found.len());
    found
}

fn collect(folder: &Path, found: &mut Vec<(PathBuf, String)>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            if path.file_name().is_some_and(|name| name != "target") {
                collect(&path, found);
            }
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = fs::read_to_string(&path).unwrap();
            found.push((path, text));
        }
    }
}

/// Who needs whom to be built, tests aside.
struct Graph {
    members: BTreeSet<String>,
    /// By name: the names of direct dependencies.
    needs: BTreeMap<String, BTreeSet<String>>,
}

impl Graph {
    fn read() -> Self {
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let output = Command::new(cargo)
            .args(["metadata", "--format-version", "1", "--locked", "--offline"])
            .current_dir(workspace())
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let metadata: Value = serde_json::from_slice(&output.stdout).unwrap();
        let names: BTreeMap<&str, &str> = metadata["packages"]
            .as_array()
            .unwrap()
            .iter()
            .map(|package| (package["id"].as_str().unwrap(), package["name"].as_str().unwrap()))
            .collect();
        let member = |id: &Value| names[id.as_str().unwrap()].to_owned();
        let members =
            metadata["workspace_members"].as_array().unwrap().iter().map(member).collect();
        let mut needs: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for node in metadata["resolve"]["nodes"].as_array().unwrap() {
            let known = needs.entry(names[node["id"].as_str().unwrap()].to_owned()).or_default();
            for dependency in node["deps"].as_array().unwrap() {
                let kinds = dependency["dep_kinds"].as_array().unwrap();
                if kinds.iter().any(|kind| kind["kind"] != "dev") {
                    known.insert(names[dependency["pkg"].as_str().unwrap()].to_owned());
                }
            }
        }
        Self { members, needs }
    }

    /// The members that this one names.
    fn ours(&self, member: &str) -> BTreeSet<&str> {
        let named = self.needs[member].iter().filter(|name| self.members.contains(*name));
        named.map(String::as_str).collect()
    }

    /// All that a member needs, directly or not.
    fn reached(&self, member: &str) -> BTreeSet<&str> {
        let mut reached = BTreeSet::new();
        let mut open = vec![member];
        while let Some(name) = open.pop() {
            for next in self.needs.get(name).into_iter().flatten() {
                if reached.insert(next.as_str()) {
                    open.push(next);
                }
            }
        }
        reached
    }
}
