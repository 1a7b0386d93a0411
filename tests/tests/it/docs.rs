//! The documents say what is: commands that are there, tests that are there, links that lead somewhere.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use system_tests::home::Home;
use system_tests::skip::workspace;

#[test]
fn every_make_command_of_the_readme_is_a_target_of_the_makefile() {
    let makefile = read("Makefile");
    let targets: BTreeSet<&str> = makefile
        .lines()
        .filter(|line| line.starts_with(|c: char| c.is_ascii_lowercase()))
        .filter_map(|line| line.split_once(':'))
        .map(|(target, _)| target)
        .collect();
    let readme = read("README.md");
    let named: BTreeSet<&str> = readme
        .match_indices("make ")
        .filter(|(at, _)| readme.split_at(*at).0.ends_with(['`', '\n']))
        .filter_map(|(at, found)| {
            let rest = readme.get(at + found.len()..)?;
            rest.split(|c: char| !(c.is_ascii_lowercase() || c == '-')).next()
        })
        .collect();
    assert!(named.contains("run") && named.contains("test"), "{named:?}");
    for command in named {
        assert!(targets.contains(command), "the Makefile has no `{command}`");
    }
}

#[test]
fn every_command_of_the_readme_is_one_of_the_programs() {
    let readme = read("README.md");
    let home = Home::new();
    let help = |program: &str| {
        let launch = if program == "agent-service" {
            home.agent_service(["--help"])
        } else {
            home.sensor_bridge(["--help"])
        };
        launch.run().expect(0).stdout
    };
    for program in ["agent-service", "sensor-bridge"] {
        let help = help(program);
        let mut found = 0;
        for line in readme.lines() {
            let Some(rest) = line.strip_prefix(program) else { continue };
            let Some(command) = rest.strip_prefix(' ').and_then(|rest| rest.split(' ').next())
            else {
                continue;
            };
            found += 1;
            assert!(
                help.contains(&format!("  {command} ")),
                "{program} has no `{command}`: {help}"
            );
        }
        assert!(found > 0, "the README shows {program}");
    }
}

#[test]
fn every_test_that_the_table_names_is_there_and_every_row_names_one() {
    let known = tests_of_the_workspace();
    let readme = read("tests/README.md");
    let table = readme.split("## From sentence to test").nth(1).unwrap();
    let mut rows = 0;
    for line in
        table.lines().filter(|line| line.starts_with("| ") && !line.starts_with("| sentence"))
    {
        let Some(tests) = line.trim_end_matches(['|', ' ']).rsplit('|').next() else { continue };
        let named: Vec<&str> = tests.split('`').skip(1).step_by(2).collect();
        assert!(!named.is_empty(), "no test in this row: {line}");
        for name in named {
            let function = name.rsplit("::").next().unwrap_or(name);
            assert!(known.contains(function), "there is no test `{name}`: {line}");
        }
        rows += 1;
    }
    assert!(rows > 60, "{rows}");
}

#[test]
fn every_black_box_test_stands_in_the_table() {
    let table = read("tests/README.md");
    let mut missing = Vec::new();
    for file in files(&workspace().join("tests/tests/it"), "rs") {
        let module = file.file_stem().unwrap().to_string_lossy().into_owned();
        for name in tests_in(&fs::read_to_string(&file).unwrap()) {
            if !table.contains(&format!("`{module}::{name}`")) {
                missing.push(format!("{module}::{name}"));
            }
        }
    }
    assert!(missing.is_empty(), "not in tests/README.md:\n{}", missing.join("\n"));
}

#[test]
fn every_link_of_a_document_leads_to_a_file() {
    let mut checked = 0;
    for file in files(&workspace(), "md") {
        let text = fs::read_to_string(&file).unwrap();
        for (at, _) in text.match_indices("](") {
            let rest = text.get(at + 2..).unwrap_or_default();
            let target = rest.split([')', '#', ' ']).next().unwrap_or_default();
            if target.is_empty() || target.contains("://") {
                continue;
            }
            checked += 1;
            let there = file.parent().unwrap().join(target).exists();
            assert!(there, "{}: {target} is not there", file.display());
        }
    }
    assert!(checked > 5, "{checked}");
}

fn read(path: &str) -> String {
    fs::read_to_string(workspace().join(path)).unwrap()
}

fn files(folder: &Path, extension: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if path.is_dir() {
            if !name.starts_with('.') && name != "target" {
                found.extend(files(&path, extension));
            }
        } else if path.extension().is_some_and(|one| one == extension) {
            found.push(path);
        }
    }
    found
}

/// The names of the functions under a test attribute.
fn tests_in(text: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut under_attribute = false;
    for line in text.lines().map(str::trim) {
        if line == "#[test]" || line.starts_with("#[tokio::test") {
            under_attribute = true;
        } else if under_attribute && !line.starts_with('#') {
            under_attribute = false;
            let name = line.split_once("fn ").and_then(|(_, rest)| rest.split('(').next());
            found.extend(name.map(str::to_owned));
        }
    }
    found
}

fn tests_of_the_workspace() -> BTreeSet<String> {
    files(&workspace(), "rs")
        .iter()
        .flat_map(|file| tests_in(&fs::read_to_string(file).unwrap()))
        .collect()
}
