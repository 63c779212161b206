"""The command line of `stoker mount`."""

from pathlib import Path

import pytest

from stoker_sidecar.local.options.mount_options import MountOptions, environment_of, parse
from tests.support.cases import cases

USER = 1000


def mount(*words: str, **environment: str) -> MountOptions:
    options = parse(["mount", "s3://bucket/prefix", "/data", *words], {"HOME": "/home/me", **environment}, USER)
    assert isinstance(options, MountOptions)
    return options


def test_url_and_folder_are_enough() -> None:
    options = mount()
    assert (options.source.uri, options.folder) == ("s3://bucket/prefix", Path("/data"))
    assert (options.source.endpoint, options.source.region) == (None, "us-east-1")
    assert options.refresh
    assert not options.warm


def test_endpoint_and_region_come_from_the_variables_of_aws() -> None:
    source = mount(AWS_ENDPOINT_URL="http://s3.here:9000", AWS_DEFAULT_REGION="eu-west-1").source
    assert (source.endpoint, source.region) == ("http://s3.here:9000", "eu-west-1")


def test_an_option_wins_over_its_variable() -> None:
    assert mount("--region", "eu-north-1", AWS_REGION="eu-west-1").source.region == "eu-north-1"


def test_sizes_are_quantities() -> None:
    options = mount("--quota", "2Gi", "--bandwidth-limit", "50M")
    assert (options.quota_bytes, options.bytes_per_second) == (2 * 2**30, 50_000_000)


def test_patterns_may_be_repeated() -> None:
    assert mount("--include", "a/**", "--include", "b/**").source.include == ("a/**", "b/**")


@cases(
    "uid, environment, cache",
    (0, {}, "/var/cache/stoker"),
    (USER, {"HOME": "/home/me"}, "/home/me/.cache/stoker"),
    (USER, {"HOME": "/home/me", "XDG_CACHE_HOME": "/scratch"}, "/scratch/stoker"),
)
def test_the_cache_is_where_people_expect_it(uid: int, environment: dict[str, str], cache: str) -> None:
    options = parse(["mount", "s3://bucket", "/data"], environment, uid)
    assert isinstance(options, MountOptions)
    assert options.cache == Path(cache)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["mount", "gs://bucket", "/data"], "'gs://bucket' is not supported: write s3://bucket/ with --endpoint"),
        (["mount", "s3://B", "/data"], "the bucket 'B'"),
        (["mount", "s3://bucket", "/data", "--endpoint", "here:9000"], "--endpoint 'here:9000' is not valid: URL"),
        (["mount", "s3://bucket", "/data", "--quota", "much"], "'much' is not a quantity of bytes"),
        (["mount", "s3://bucket", "/data", "--cache", "/a,b"], "--cache '/a,b' has a comma"),
        (["mount", "s3://bucket"], "DIR"),
        (["mount", "s3://bucket", "/data", "train/"], "train/ is behind URL and DIR: paths are for --warm"),
        (["mount", "s3://bucket", "/data", "--warm", "--wram"], "stoker mount: error: unrecognized arguments: --wram"),
        (["mount", "s3://bucket", "/data", "--warm", "\udcff"], "'\\udcff' is not UTF-8: rename it"),
        (["mount", "s3://bucket", "/\udcff"], "'/\\udcff' is not UTF-8: rename it"),
        (["mount", "s3://bucket", "/data", "--list", "paths.txt"], "give --warm as well"),
        (["mount", "s3://bucket", "/data", "--warm", "--list", "/no/file"], "--list /no/file: No such file"),
        (["mount", "s3://bucket", "/data", "--sampling", "{"], "expected the node content"),  # a node of YAML
    ],
)
def test_wrong_usage_is_exit_code_2_and_names_the_value(
    words: list[str], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as refused:
        parse(words, {}, USER)
    assert refused.value.code == 2
    assert sentence in capsys.readouterr().err


def test_the_paths_of_a_list_come_behind_those_of_the_command_line(tmp_path: Path) -> None:
    (tmp_path / "paths").write_text("train/\n# a comment\nval/*.tar\nindex.json\n")
    listed = ["--list", str(tmp_path / "paths")]
    assert mount("--warm", "index.json", *listed).warm_paths == ("index.json", "train/", "val/*.tar")
    assert mount("--warm", *listed).warm_paths == ("train/", "val/*.tar", "index.json")


def test_a_list_may_have_twenty_thousand_paths(tmp_path: Path) -> None:
    (tmp_path / "paths").write_text("".join(f"train/{number:06}.jpg\n" for number in range(20_000)))
    assert len(mount("--warm", "--list", str(tmp_path / "paths")).warm_paths) == 20_000


@cases(
    "content, sentence",
    (b"".join(b"%0999d\n" % n for n in range(700)), "600000 characters together"),
    (b"", "has no path"),
    (b"train/\n\xff\n", "line 2 of the list is not UTF-8"),
    (b"a\n" * 200_001, "20000 paths"),
)
def test_a_list_that_cannot_be_meant_is_refused(
    tmp_path: Path, content: bytes, sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "paths").write_bytes(content)
    with pytest.raises(SystemExit):
        mount("--warm", "--list", str(tmp_path / "paths"))
    assert sentence in capsys.readouterr().err


def test_a_profile_is_handed_on() -> None:
    assert environment_of(mount("--profile", "lab"), {"PATH": "/bin"}) == {"PATH": "/bin", "AWS_PROFILE": "lab"}


def test_without_signing_no_credentials_can_be_found() -> None:
    given = {"PATH": "/bin", "AWS_ACCESS_KEY_ID": "key", "AWS_PROFILE": "lab"}
    seen = environment_of(mount("--no-sign-request"), given)
    assert not {"AWS_ACCESS_KEY_ID", "AWS_PROFILE"} & seen.keys()
    assert seen["AWS_SHARED_CREDENTIALS_FILE"] == "/dev/null"


def test_settings_of_a_nodes_sidecar_are_not_taken_over() -> None:
    assert environment_of(mount(), {"STOKER_CACHE_ROOT": "/elsewhere"}) == {}


def test_a_file_of_rules_is_read_before_anything_is_mounted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "rules.yaml").write_text("kind: TuningProfil")
    with pytest.raises(SystemExit):
        mount("--tuning", str(tmp_path / "rules.yaml"))
    assert "line 1" in capsys.readouterr().err


def test_rules_are_in_force_unless_they_are_turned_off() -> None:
    assert mount().tuned
    assert not mount("--no-tuning").tuned


def test_the_window_of_earlier_releases_is_accepted_with_a_warning(capsys: pytest.CaptureFixture[str]) -> None:
    assert mount("--tuning-window", "3.6").tuned
    assert "--tuning-window has no effect" in capsys.readouterr().err
