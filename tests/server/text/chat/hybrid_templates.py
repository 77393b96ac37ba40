"""As family_templates.py: templates of families of hybrid models."""

# Parts counted by a macro over namespaces, calls as parameters between tags, neighbours in the loop, reasoning kept or
# dropped by switches (as Qwen3.5, 3.6 and 3.8 do it).
PARAMETERS = r"""{%- set pictures = namespace(count=0) %}
{%- macro show(content, counts, is_system=false) %}
    {%- if content is string %}
        {{- content }}
    {%- elif content is iterable and content is not mapping %}
        {%- for part in content %}
            {%- if 'image' in part or 'image_url' in part or part.type == 'image' %}
                {%- if is_system %}
                    {{- raise_exception('no pictures in a system message') }}
                {%- endif %}
                {%- if counts %}
                    {%- set pictures.count = pictures.count + 1 %}
                {%- endif %}
                {%- if number_pictures %}
                    {{- 'Picture ' ~ pictures.count ~ ': ' }}
                {%- endif %}
                {{- '<|picture|>' }}
            {%- elif 'text' in part %}
                {{- part.text }}
            {%- else %}
                {{- raise_exception('a part of another kind') }}
            {%- endif %}
        {%- endfor %}
    {%- elif content is none or content is undefined %}
        {{- '' }}
    {%- else %}
        {{- raise_exception('a content of another kind') }}
    {%- endif %}
{%- endmacro %}
{%- if not messages %}
    {{- raise_exception('no messages') }}
{%- endif %}
{%- set effort = reasoning_effort|default('high') %}
{%- if effort not in ('high', 'medium', 'low') %}
    {{- raise_exception('unknown effort ' ~ reasoning_effort) }}
{%- endif %}
{%- set asked = '' if effort == 'medium' else 'Effort: ' ~ effort %}
{%- if tools and tools is iterable and tools is not mapping %}
    {{- '<|im_start|>system\n' }}
    {{- "Functions:\n\n<tools>" }}
    {%- for tool in tools %}
        {{- "\n" }}
        {{- tool | tojson }}
    {%- endfor %}
    {{- "\n</tools>" }}
    {{- '\n\nCall them so:\n<tool_call>\n<function=name>\n<parameter=name>\nvalue\n</parameter>\n</function>\n</tool_call>' }}
    {%- if messages[0].role == 'system' %}
        {%- set content = show(messages[0].content, false, true)|trim %}
        {%- if content %}
            {{- '\n\n' + content }}
        {%- endif %}
    {%- endif %}
    {{- '<|im_end|>\n' }}
{%- elif messages[0].role == 'system' %}
    {%- set content = show(messages[0].content, false, true)|trim %}
    {{- '<|im_start|>system\n' + [asked, content]|select|join('\n\n') + '<|im_end|>\n' }}
{%- endif %}
{%- set ns = namespace(is_searching=true, last_query=messages|length - 1) %}
{%- for message in messages[::-1] %}
    {%- set index = (messages|length - 1) - loop.index0 %}
    {%- if ns.is_searching and message.role == "user" %}
        {%- set content = show(message.content, false)|trim %}
        {%- if not(content.startswith('<tool_response>') and content.endswith('</tool_response>')) %}
            {%- set ns.is_searching = false %}
            {%- set ns.last_query = index %}
        {%- endif %}
    {%- endif %}
{%- endfor %}
{%- if ns.is_searching %}
    {{- raise_exception('nobody asks') }}
{%- endif %}
{%- for message in messages %}
    {%- set content = show(message.content, true)|trim %}
    {%- if message.role == "system" %}
        {%- if not loop.first %}
            {{- raise_exception('a late system message') }}
        {%- endif %}
    {%- elif message.role == "user" %}
        {{- '<|im_start|>' + message.role + '\n' + content + '<|im_end|>' + '\n' }}
    {%- elif message.role == "assistant" %}
        {%- set reasoning = '' %}
        {%- if message.reasoning_content is string %}
            {%- set reasoning = message.reasoning_content %}
        {%- elif '</think>' in content %}
            {%- set reasoning = content.split('</think>')[0].rstrip('\n').split('<think>')[-1].lstrip('\n') %}
            {%- set content = content.split('</think>')[-1].lstrip('\n') %}
        {%- endif %}
        {%- set reasoning = reasoning|trim %}
        {%- if (keep_thinking is defined and keep_thinking is true) or loop.index0 > ns.last_query %}
            {{- '<|im_start|>' + message.role + '\n<think>\n' + reasoning + '\n</think>\n\n' + content }}
        {%- else %}
            {{- '<|im_start|>' + message.role + '\n' + content }}
        {%- endif %}
        {%- if message.tool_calls and message.tool_calls is iterable and message.tool_calls is not mapping %}
            {%- for call in message.tool_calls %}
                {%- if call.function is defined %}
                    {%- set call = call.function %}
                {%- endif %}
                {{- ('\n\n' if loop.first and content|trim else '' if loop.first else '\n') + '<tool_call>\n<function=' + call.name + '>\n' }}
                {%- if call.arguments is defined %}
                    {%- for name, value in call.arguments|items %}
                        {{- '<parameter=' + name + '>\n' }}
                        {%- set value = value | tojson | safe if value is mapping or (value is sequence and value is not string) else value | string %}
                        {{- value }}
                        {{- '\n</parameter>\n' }}
                    {%- endfor %}
                {%- endif %}
                {{- '</function>\n</tool_call>' }}
            {%- endfor %}
        {%- endif %}
        {{- '<|im_end|>\n' }}
    {%- elif message.role == "tool" %}
        {%- if loop.previtem and loop.previtem.role != "tool" %}
            {{- '<|im_start|>user' }}
        {%- endif %}
        {{- '\n<tool_response>\n' }}
        {{- content }}
        {{- '\n</tool_response>' }}
        {%- if not loop.last and loop.nextitem.role != "tool" %}
            {{- '<|im_end|>\n' }}
        {%- elif loop.last %}
            {{- '<|im_end|>\n' }}
        {%- endif %}
    {%- else %}
        {{- raise_exception('an unknown role') }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\n' }}
    {%- if enable_thinking is defined and enable_thinking is false %}
        {{- '<think>\n\n</think>\n\n' }}
    {%- else %}
        {{- '<think>\n' }}
    {%- endif %}
{%- endif %}"""

# Macros that call themselves, dicts in order, texts between quotes of their own, results found by looking ahead, turns that
# go on (as Gemma 4 does it).
CHANNELS = r"""{%- macro show_fields(fields, leaves_out=false) -%}
    {%- set known = ['description', 'type', 'properties', 'required', 'nullable'] -%}
    {%- set ns = namespace(has_field=false) -%}
    {%- for key, field in fields | dictsort -%}
        {%- set has_more = false -%}
        {%- if not leaves_out or key not in known -%}
            {%- if ns.has_field %},{% endif -%}
            {%- set ns.has_field = true -%}
            {{ key }}:{
            {%- if field['description'] -%}
                description:<|"|>{{ field['description'] }}<|"|>
                {%- set has_more = true -%}
            {%- endif -%}
            {%- if field['type'] | upper == 'STRING' and field['enum'] -%}
                {%- if has_more %},{%- else -%} {%- set has_more = true -%} {% endif -%}
                enum:{{ show_value(field['enum']) }}
            {%- elif field['type'] | upper == 'ARRAY' and field['items'] is mapping and field['items'] -%}
                {%- if has_more %},{%- else -%} {%- set has_more = true -%} {% endif -%}
                items:{
                {%- set items = namespace(has_one=false) -%}
                {%- for name, item in field['items'] | dictsort -%}
                    {%- if item is not none -%}
                        {%- if items.has_one %},{% endif -%}
                        {%- set items.has_one = true -%}
                        {%- if name == 'properties' -%}
                            properties:{
                            {%- if item is mapping -%}
                                {{- show_fields(item) -}}
                            {%- endif -%}
                            }
                        {%- elif name == 'type' -%}
                            type:{{ show_value(item | upper if item is string else item | map('upper') | list) }}
                        {%- else -%}
                            {{ name }}:{{ show_value(item) }}
                        {%- endif -%}
                    {%- endif -%}
                {%- endfor -%}
                }
            {%- endif -%}
            {%- if field['type'] | upper == 'OBJECT' -%}
                {%- if has_more %},{%- else -%} {%- set has_more = true -%} {% endif -%}
                properties:{
                {%- if field['properties'] is defined and field['properties'] is mapping -%}
                    {{- show_fields(field['properties']) -}}
                {%- elif field is mapping -%}
                    {{- show_fields(field, leaves_out=true) -}}
                {%- endif -%}
                }
            {%- endif -%}
            {%- if has_more %},{%- else -%} {%- set has_more = true -%} {% endif -%}
            type:<|"|>{{ field['type'] | upper }}<|"|>}
        {%- endif -%}
    {%- endfor -%}
{%- endmacro -%}
{%- macro show_value(value, quotes_keys=True) -%}
    {%- if value is none -%}
        {{- 'null' -}}
    {%- elif value is string -%}
        {{- '<|"|>' + value + '<|"|>' -}}
    {%- elif value is boolean -%}
        {{- 'true' if value else 'false' -}}
    {%- elif value is mapping -%}
        {{- '{' -}}
        {%- for key, item in value | dictsort -%}
            {%- if not loop.first %},{% endif -%}
            {{- '<|"|>' + key + '<|"|>' if quotes_keys else key -}}
            :{{- show_value(item, quotes_keys=quotes_keys) -}}
        {%- endfor -%}
        {{- '}' -}}
    {%- elif value is sequence -%}
        {{- '[' -}}
        {%- for item in value -%}
            {{- show_value(item, quotes_keys=quotes_keys) -}}
            {{- ',' if not loop.last -}}
        {%- endfor -%}
        {{- ']' -}}
    {%- else -%}
        {{- value -}}
    {%- endif -%}
{%- endmacro -%}
{%- macro without_channels(text) -%}
    {%- set ns = namespace(rest='') -%}
    {%- for part in text.split('<channel|>') -%}
        {%- set ns.rest = ns.rest + (part.split('<|channel>')[0] if '<|channel>' in part else part) -%}
    {%- endfor -%}
    {{- ns.rest | trim -}}
{%- endmacro -%}
{%- macro show_result(name, result) -%}
    {{- '<|tool_response>response:' + name + '{' -}}
    {%- if result is mapping -%}
        {%- for key, value in result | dictsort -%}
            {{- key -}}:{{- show_value(value, quotes_keys=False) -}}
            {%- if not loop.last %},{% endif -%}
        {%- endfor -%}
    {%- else -%}
        {{- 'value:' + show_value(result, quotes_keys=False) -}}
    {%- endif -%}
    {{- '}<tool_response|>' -}}
{%- endmacro -%}

{%- set ns = namespace(last_shown=None, last_role=None) -%}
{%- set spoken = messages -%}
{%- set enable_thinking = enable_thinking | default(false) -%}
{{- bos_token -}}
{%- if enable_thinking or tools or (messages and messages[0]['role'] in ['system', 'developer']) -%}
    {{- '<|turn>system\n' -}}
    {%- if enable_thinking -%}
        {{- '<|think|>\n' -}}
    {%- endif -%}
    {%- if messages and messages[0]['role'] in ['system', 'developer'] -%}
        {%- if messages[0]['content'] is string -%}
            {{- messages[0]['content'] | trim -}}
        {%- elif messages[0]['content'] is sequence -%}
            {%- for item in messages[0]['content'] -%}
                {{- item['text'] | trim + ' '-}}
            {%- endfor -%}
        {%- endif -%}
        {%- set spoken = messages[1:] -%}
    {%- endif -%}
    {%- for tool in tools or [] %}
        {%- set function = tool['function'] -%}
        <|tool>declaration:{{- function['name'] -}}{description:<|"|>{{- function['description'] -}}<|"|>
        {%- if function['parameters'] -%}
            ,parameters:{
            {%- if function['parameters']['properties'] -%}
                properties:{ {{- show_fields(function['parameters']['properties']) -}} },
            {%- endif -%}
            type:<|"|>{{- function['parameters']['type'] | upper -}}<|"|>}
        {%- endif -%}
        {%- if 'response' in function -%}
            ,response:{{ show_value(function['response']) }}
        {%- endif -%}
        }<tool|>
    {%- endfor %}
    {{- '<turn|>\n' -}}
{%- endif %}

{%- set asked = namespace(last=-1) -%}
{%- for i in range(spoken | length) -%}
    {%- if spoken[i]['role'] == 'user' -%}
        {%- set asked.last = i -%}
    {%- endif -%}
{%- endfor -%}
{%- for message in spoken -%}
    {%- if message['role'] != 'tool' -%}
        {%- set ns.last_shown = None -%}
        {%- set role = 'model' if message['role'] == 'assistant' else message['role'] -%}
        {%- if not (role == 'model' and ns.last_role == 'assistant') -%}
            {{- '<|turn>' + role + '\n' }}
        {%- endif -%}
        {%- set thought = message.get('reasoning') or message.get('reasoning_content') -%}
        {%- if thought and (loop.index0 > asked.last or (keep_thinking | default(false) and message.get('tool_calls'))) -%}
            {{- '<|channel>thought\n' + thought + '\n<channel|>' -}}
        {%- endif -%}
        {%- for call in message.get('tool_calls') or [] -%}
            {{- '<|tool_call>call:' + call['function']['name'] + '{' -}}
            {%- if call['function']['arguments'] is mapping -%}
                {%- for key, value in call['function']['arguments'] | dictsort -%}
                    {%- if not loop.first %},{% endif -%}
                    {{- key -}}:{{- show_value(value, quotes_keys=False) -}}
                {%- endfor -%}
            {%- elif call['function']['arguments'] is not none -%}
                {{- raise_exception(
                    "arguments of calls are "
                    "objects"
                ) -}}
            {%- endif -%}
            {{- '}<tool_call|>' -}}
            {%- set ns.last_shown = 'call' -%}
        {%- endfor -%}
        {%- set results = namespace(has_one=false, is_over=false) -%}
        {%- if message.get('tool_calls') -%}
            {%- for k in range(loop.index0 + 1, spoken | length) -%}
                {%- if results.is_over -%}
                {%- elif spoken[k]['role'] != 'tool' -%}
                    {%- set results.is_over = true -%}
                {%- else -%}
                    {%- set result = spoken[k] -%}
                    {%- set of = namespace(name=result.get('name') | default('unknown', true)) -%}
                    {%- for call in message['tool_calls'] -%}
                        {%- if call.get('id') == result.get('tool_call_id') -%}
                            {%- set of.name = call['function']['name'] -%}
                        {%- endif -%}
                    {%- endfor -%}
                    {%- set said = result.get('content') -%}
                    {%- if said is sequence and said is not string -%}
                        {%- set joined = namespace(text='') -%}
                        {%- for part in said -%}
                            {%- if part.get('type') == 'text' -%}
                                {%- set joined.text = joined.text + (part.get('text') | default('')) -%}
                            {%- endif -%}
                        {%- endfor -%}
                        {{- show_result(of.name, joined.text) -}}
                    {%- else -%}
                        {{- show_result(of.name, said) -}}
                    {%- endif -%}
                    {%- set results.has_one = true -%}
                    {%- set ns.last_shown = 'result' -%}
                {%- endif -%}
            {%- endfor -%}
        {%- endif -%}
        {%- set content -%}
            {%- if message.get('content') is string -%}
                {{- without_channels(message['content']) if role == 'model' else message['content'] | trim -}}
            {%- elif message.get('content') is sequence -%}
                {%- for item in message['content'] -%}
                    {%- if item.get('type') == 'text' -%}
                        {{- without_channels(item['text']) if role == 'model' else item['text'] | trim -}}
                    {%- elif item.get('type') in ['image', 'image_url'] -%}
                        {{- '<|image|>' -}}
                    {%- endif -%}
                {%- endfor -%}
            {%- endif -%}
        {%- endset -%}
        {{- content -}}
        {%- set next = namespace(role=None) -%}
        {%- for j in range(loop.index0 + 1, spoken | length) -%}
            {%- if next.role is none and spoken[j]['role'] != 'tool' -%}
                {%- set next.role = spoken[j]['role'] -%}
            {%- endif -%}
        {%- endfor -%}
        {%- if ns.last_shown == 'call' and not results.has_one -%}
            {{- '<|tool_response>' -}}
        {%- elif role == 'model' and next.role == 'assistant' -%}
        {%- elif not results.has_one or content | trim | length > 0 or next.role -%}
            {{- '<turn|>\n' -}}
        {%- endif -%}
        {%- set ns.last_role = message['role'] -%}
    {%- endif -%}
{%- endfor -%}
{%- if add_generation_prompt -%}
    {%- if ns.last_shown is none -%}
        {{- '<|turn>model\n' -}}
        {%- if not enable_thinking -%}
            {{- '<|channel>thought\n<channel|>' -}}
        {%- endif -%}
    {%- elif ns.last_shown == 'result' and enable_thinking -%}
        {{- '<|channel>thought\n' -}}
    {%- endif -%}
{%- endif -%}"""
