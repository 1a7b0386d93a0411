use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::json;

use super::*;

#[derive(Debug, Default, Deserialize, Serialize, PartialEq)]
#[serde(deny_unknown_fields)]
struct Raw {
    name: Option<String>,
    workspace: Option<PathBuf>,
    count: Option<u32>,
    share: Option<f64>,
    on: Option<bool>,
    model: Option<RawModel>,
    triggers: Option<Vec<RawTrigger>>,
    labels: Option<BTreeMap<String, String>>,
}

#[derive(Debug, Default, Deserialize, Serialize, PartialEq)]
#[serde(deny_unknown_fields)]
struct RawModel {
    provider: Option<String>,
    model: Option<String>,
}

#[derive(Debug, Default, Deserialize, Serialize, PartialEq)]
#[serde(deny_unknown_fields)]
struct RawTrigger {
    prompt: Option<String>,
    consecutive: Option<u32>,
}

/// Files in a folder of their own, and loading them; errors lose the folder.
struct Folder(tempfile::TempDir);

impl Folder {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn with(self, name: &str, content: &str) -> Self {
        std::fs::write(self.path(name), content).unwrap();
        self
    }

    fn faults(&self, loader: Loader<'_>) -> Vec<String> {
        let folder = format!("{}/", self.0.path().display());
        let faults = loader.load::<Raw>().unwrap_err();
        faults.sentences().iter().map(|sentence| sentence.replace(&folder, "")).collect()
    }

    fn fault_of_file(&self, name: &str) -> String {
        self.faults(Loader::new("APP").file(self.path(name))).concat()
    }
}

fn fault_of_variable(name: &str, value: &str) -> String {
    let vars = Vars::from_iter([(name, value)]);
    Folder::new().faults(Loader::new("APP").environment(&vars)).concat()
}

#[test]
fn the_later_layer_wins_field_by_field() {
    let folder = Folder::new()
        .with("a.json", r#"{"name": "a", "count": 1, "model": {"provider": "x", "model": "m"}}"#)
        .with("b.toml", "count = 2\n[model]\nmodel = 'n'\n")
        .with("c.yaml", "share: 0.5\n");
    let vars = Vars::from_iter([("APP__SHARE", "0.75"), ("APP__ON", "false")]);
    let loaded = Loader::new("APP")
        .defaults(&json!({"name": "default", "workspace": ".", "on": true}))
        .file(folder.path("a.json"))
        .file(folder.path("b.toml"))
        .file(folder.path("c.yaml"))
        .environment(&vars)
        .flags(&json!({"on": true, "name": null}))
        .load::<Raw>()
        .unwrap();
    let expected = Raw {
        name: Some("a".to_owned()),
        workspace: Some(PathBuf::from(".")),
        count: Some(2),
        share: Some(0.75),
        on: Some(true),
        model: Some(RawModel { provider: Some("x".to_owned()), model: Some("n".to_owned()) }),
        triggers: None,
        labels: None,
    };
    assert_eq!(loaded.value, expected);
    let model = FieldPath::from("model");
    let file = |name: &str| Origin::File(folder.path(name));
    let cases = [
        (FieldPath::from("name"), file("a.json")),
        (FieldPath::from("workspace"), Origin::Defaults),
        (FieldPath::from("count"), file("b.toml")),
        (FieldPath::from("share"), Origin::Variable("APP__SHARE".to_owned())),
        (FieldPath::from("on"), Origin::Flags),
        (model.key("provider"), file("a.json")),
        (model.key("model"), file("b.toml")),
        (FieldPath::from("triggers"), Origin::Defaults),
    ];
    for (path, expected) in cases {
        assert_eq!(loaded.origin(&path), expected, "{path}");
    }
}

#[test]
fn a_list_is_replaced_as_a_whole() {
    let folder = Folder::new()
        .with("a.json", r#"{"triggers": [{"prompt": "p", "consecutive": 3}, {}]}"#)
        .with("b.json", r#"{"triggers": [{"prompt": "q"}]}"#);
    let loaded = Loader::new("APP")
        .file(folder.path("a.json"))
        .file(folder.path("b.json"))
        .load::<Raw>()
        .unwrap();
    let triggers = loaded.value.triggers.as_ref().unwrap();
    assert_eq!(triggers.len(), 1);
    assert_eq!(triggers[0].consecutive, None);
    let trigger = FieldPath::from("triggers").index(0);
    for field in ["prompt", "consecutive"] {
        assert_eq!(loaded.origin(&trigger.key(field)), Origin::File(folder.path("b.json")));
    }
    assert_eq!(
        loaded.fault(&trigger.key("prompt"), "must be longer"),
        format!("`triggers[0].prompt` in {} must be longer", folder.path("b.json").display())
    );
}

#[test]
fn relative_paths_are_relative_to_the_file_that_sets_them() {
    let folder = Folder::new().with("a.json", r#"{"workspace": "w"}"#);
    let path = FieldPath::from("workspace");
    let file = Loader::new("APP").file(folder.path("a.json"));
    assert_eq!(file.load::<Raw>().unwrap().base(&path), folder.0.path());
    let vars = Vars::from_iter([("APP__WORKSPACE", "w")]);
    let both = Loader::new("APP").file(folder.path("a.json")).environment(&vars);
    assert_eq!(both.load::<Raw>().unwrap().base(&path), PathBuf::new());
}

#[test]
fn an_unknown_field_is_named_with_its_file_its_place_and_the_nearest_name() {
    let cases = [
        ("a.json", r#"{"modle": {}}"#, "unknown field `modle` in a.json: did you mean `model`?"),
        (
            "a.yaml",
            "triggers: [{promt: x}]\n",
            "unknown field `promt` in a.yaml (at triggers[0]): did you mean `prompt`?",
        ),
        (
            "a.toml",
            "[model]\nproviders = 'x'\n",
            "unknown field `providers` in a.toml (at model): did you mean `provider`?",
        ),
        (
            "a.json",
            r#"{"model": {"temperature": 1}}"#,
            "unknown field `temperature` in a.json (at model): known are `provider`, `model`",
        ),
    ];
    for (name, content, expected) in cases {
        assert_eq!(Folder::new().with(name, content).fault_of_file(name), expected);
    }
    assert_eq!(
        fault_of_variable("APP__MODEL__PROVIDR", "x"),
        "unknown field `providr` in the environment variable APP__MODEL__PROVIDR (at model): did you mean `provider`?"
    );
    assert_eq!(
        fault_of_variable("APP__MODLE", "{}"),
        "unknown field `modle` in the environment variable APP__MODLE: did you mean `model`?"
    );
}

#[test]
fn a_wrong_type_is_named_with_field_place_finding_and_what_would_be_right() {
    let cases = [
        (
            r#"{"count": "ten"}"#,
            "`count` in a.json must be a whole number, 0 or more, but is the text \"ten\"",
        ),
        (r#"{"count": -1}"#, "`count` in a.json must be a whole number, 0 or more, but is -1"),
        (r#"{"count": 1.5}"#, "`count` in a.json must be a whole number, 0 or more, but is 1.5"),
        (
            r#"{"count": 5000000000}"#,
            "`count` in a.json must be a whole number, 0 or more, but is 5000000000",
        ),
        (r#"{"share": "0.5"}"#, "`share` in a.json must be a number, but is the text \"0.5\""),
        (r#"{"on": "yes"}"#, "`on` in a.json must be true or false, but is the text \"yes\""),
        (r#"{"name": 5}"#, "`name` in a.json must be text, but is 5"),
        (r#"{"model": "gpt"}"#, "`model` in a.json must be an object, but is the text \"gpt\""),
        (r#"{"triggers": {}}"#, "`triggers` in a.json must be a list, but is an object"),
        (r#"{"triggers": [{}, 3]}"#, "`triggers[1]` in a.json must be an object, but is 3"),
        (r#"{"labels": {"0": []}}"#, "`labels.0` in a.json must be text, but is a list"),
    ];
    for (content, expected) in cases {
        assert_eq!(Folder::new().with("a.json", content).fault_of_file("a.json"), expected);
    }
    assert_eq!(
        fault_of_variable("APP__COUNT", "ten"),
        "`count` in the environment variable APP__COUNT must be a whole number, 0 or more, but is the text \"ten\""
    );
    assert_eq!(
        fault_of_variable("APP__TRIGGERS__0__PROMPT", "x"),
        "`triggers` in the environment variable APP__TRIGGERS__0__PROMPT must be a list, but is an object"
    );
}

#[test]
fn null_is_as_if_the_field_were_not_there() {
    let folder = Folder::new().with("a.json", r#"{"name": null, "model": null, "triggers": null}"#);
    let loaded = Loader::new("APP").file(folder.path("a.json")).load::<Raw>().unwrap();
    assert_eq!(loaded.value, Raw::default());
}

#[test]
fn a_variable_that_looks_like_a_number_is_text_where_text_is_wanted() {
    let vars = Vars::from_iter([
        ("APP__NAME", "123"),
        ("APP__MODEL__MODEL", "4.10"),
        ("APP__MODEL__PROVIDER", "true"),
        ("APP__COUNT", "7"),
        ("APP__LABELS", r#"{"0": "person"}"#),
    ]);
    let raw = Loader::new("APP").environment(&vars).load::<Raw>().unwrap().value;
    assert_eq!(raw.name.as_deref(), Some("123"));
    let model = raw.model.unwrap();
    assert_eq!((model.model.as_deref(), model.provider.as_deref()), (Some("4.10"), Some("true")));
    assert_eq!(raw.count, Some(7));
    assert_eq!(raw.labels.unwrap()["0"], "person");
}

#[test]
fn a_layer_shows_all_that_does_not_fit() {
    let folder = Folder::new().with(
        "a.json",
        r#"{"nam": "x", "count": "y", "model": {"modl": 1, "provider": 2},
            "triggers": [{"promt": "p", "consecutive": -1}, {"consecutive": "z"}]}"#,
    );
    let mut faults = folder.faults(Loader::new("APP").file(folder.path("a.json")));
    faults.sort();
    assert_eq!(
        faults,
        [
            "`count` in a.json must be a whole number, 0 or more, but is the text \"y\"",
            "`model.provider` in a.json must be text, but is 2",
            "`triggers[0].consecutive` in a.json must be a whole number, 0 or more, but is -1",
            "`triggers[1].consecutive` in a.json must be a whole number, 0 or more, but is the text \"z\"",
            "unknown field `modl` in a.json (at model): did you mean `model`?",
            "unknown field `nam` in a.json: did you mean `name`?",
            "unknown field `promt` in a.json (at triggers[0]): did you mean `prompt`?",
        ]
    );
    let vars =
        Vars::from_iter([("APP__COUNT", "x"), ("APP__MODEL__MODEL", "4"), ("APP__NAME", "5")]);
    assert_eq!(
        Folder::new().faults(Loader::new("APP").environment(&vars)),
        [
            "`count` in the environment variable APP__COUNT must be a whole number, 0 or more, but is the text \"x\""
        ]
    );
}

#[test]
fn every_layer_shows_its_faults_at_once() {
    let folder = Folder::new()
        .with("a.json", r#"{"nam": "x"}"#)
        .with("b.json", "[]")
        .with("c.json", r#"{"count": true}"#);
    let vars = Vars::from_iter([("APP__SHAR", "1")]);
    let loader = Loader::new("APP")
        .file(folder.path("a.json"))
        .file(folder.path("b.json"))
        .file(folder.path("c.json"))
        .environment(&vars);
    assert_eq!(
        folder.faults(loader),
        [
            "the configuration file b.json must hold one object, but holds a list",
            "unknown field `nam` in a.json: did you mean `name`?",
            "`count` in c.json must be a whole number, 0 or more, but is true",
            "unknown field `shar` in the environment variable APP__SHAR: did you mean `share`?",
        ]
    );
}
